"""Debezium's connector for Postgres, from a snapshot on, against the rows of its source."""

from datetime import UTC
from pathlib import Path

from tests.model.gateway import Gateway
from tests.real.counterparts import debezium_version
from tests.real.debezium import PostgresSource, engine, landed, mirrored, pass_fence
from tests.real.report import Report


def test_a_snapshot_and_the_stream_after_it_leave_the_rows_of_the_source(
    gateway: Gateway, source: PostgresSource, tmp_path: Path, report: Report
) -> None:
    source.run(
        "CREATE TABLE fence (id int PRIMARY KEY)",
        "CREATE TABLE orders (id int PRIMARY KEY, customer text NOT NULL, total numeric(10,2), placed timestamptz)",
        "INSERT INTO orders SELECT i, 'c' || i, i * 1.01, '2026-01-01 00:00Z'::timestamptz + i * interval '1.000001 s'"
        " FROM generate_series(1, 500) i",
    )
    with engine(gateway, tmp_path) as running:
        running.add("shop", source.properties())
        running.start()
        pass_fence(source, running)
        source.run(
            "UPDATE orders SET total = total + 0.01, customer = customer || '!' WHERE id % 3 = 0",
            "DELETE FROM orders WHERE id % 7 = 0",
            "UPDATE orders SET id = id + 1000 WHERE id % 11 = 0",
            "INSERT INTO orders VALUES (7, '', NULL, NULL)",
        )
        pass_fence(source, running)
    wanted = source.rows("SELECT * FROM orders", "id")
    for row in wanted.values():
        row["placed"] = row["placed"] and row["placed"].astimezone(UTC)
    assert landed(gateway, "public.orders", "id") == wanted
    assert mirrored(gateway, "public.orders", "id") == wanted
    report.add(f"Debezium {debezium_version()}, Postgres", len(wanted))
