"""Debezium's connector for Postgres, from a snapshot on, against the rows of its source."""

import random
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest

from tests.model.gateway import Gateway
from tests.real.counterparts import debezium_version
from tests.real.debezium import SAFE, Engine, PostgresSource, compare, engine, landed, pass_fence, verify_zone
from tests.real.report import Report
from tests.support.waiting import wait_until

SCHEMA: Final = (
    "CREATE TABLE fence (id int PRIMARY KEY)",
    "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)",
    "CREATE TABLE items (id int PRIMARY KEY, name text NOT NULL, large text, price numeric(10,2), at timestamptz)",
    "ALTER TABLE items ALTER large SET STORAGE EXTERNAL",
    "CREATE TABLE pairs (a int, b text, note text, PRIMARY KEY (b, a))",
)

ADDED: Final = (("int", "7"), ("text", "'x'"), ("date", "'2024-02-29'"), ("boolean", "true"), ("bigint", "7"))
"""Type of each added column, and a value."""


def declare(gateway: Gateway, table: str, keys: dict[str, str], **options: str) -> None:
    """Register a table with its key columns alone: the connector's schemas add the others."""
    gateway.register(table, keys, [*keys], **options)


class Workload:
    """Random transactions on `items` and `pairs`, from a seed; `events` counts the rows that they must land."""

    def __init__(self, source: PostgresSource, seed: int, *, changes_schema: bool = True) -> None:
        self._source, self._dice, self._changes_schema = source, random.Random(seed), changes_schema
        self._added: list[tuple[str, str]] = []
        self._types = iter(ADDED)
        self._number = self.events = 0

    def run(self, transactions: int) -> None:
        for number in range(self._number, self._number + transactions):
            self._number += 1
            if self._changes_schema and number % 25 == 24:
                self._change_schema(number)
            with self._source.connection.transaction(force_rollback=number % 10 == 9):
                before = self.events
                for _ in range(self._dice.choice((1, 1, 3, 8))):
                    statement, weight = self._dice.choice(
                        (self._insert, self._update, self._move, self._delete, self._pair)
                    )()
                    changed = self._source.connection.execute(statement.encode()).rowcount
                    self.events += weight * changed
                if number % 10 == 9:
                    self.events = before

    def _text(self) -> str:
        return "repeat('" + self._dice.choice(("x", "\u00e9", "", "null ")) + f"', {self._dice.choice((0, 3, 9000))})"

    def _insert(self) -> tuple[str, int]:
        start = self._dice.randrange(1000)
        return (
            f"INSERT INTO items (id, name, large, price, at) SELECT i, 'n' || i, {self._text()}, i * 0.01, now()"
            f" FROM generate_series({start}, {start + self._dice.choice((0, 0, 5))}) i ON CONFLICT DO NOTHING",
            1,
        )

    def _update(self) -> tuple[str, int]:
        what = self._dice.choice(
            [
                "price = price * 1.01",
                "name = name || '!'",
                "at = NULL",
                f"large = {self._text()}",
                "large = NULL",
                "price = NULL",
            ]
            + [f"{name} = {self._dice.choice(('NULL', value))}" for name, value in self._added]
        )
        start = self._dice.randrange(1000)
        return f"UPDATE items SET {what} WHERE id BETWEEN {start} AND {start + self._dice.choice((3, 60))}", 1

    def _move(self) -> tuple[str, int]:
        """Change keys. A large value that a moved row keeps is not in the event, so it is set, too."""
        old, new = self._dice.sample(range(1000), 2)
        free = f"NOT EXISTS (SELECT FROM items WHERE id = {new})"
        return f"UPDATE items SET id = {new}, large = {self._text()} WHERE id = {old} AND {free}", 2

    def _delete(self) -> tuple[str, int]:
        start = self._dice.randrange(1000)
        return f"DELETE FROM items WHERE id BETWEEN {start} AND {start + 10}", 1

    def _pair(self) -> tuple[str, int]:
        a, b = self._dice.randrange(5), self._dice.choice(("p", "", "q r"))
        self._source.run(
            f"INSERT INTO pairs VALUES ({a}, '{b}', 'x') ON CONFLICT (b, a) DO UPDATE SET note = {self._text()}"
        )
        return f"DELETE FROM pairs WHERE a = {a} AND b = 'q r'", 0

    def _change_schema(self, number: int) -> None:
        """Drop or add a column. A new one of the type of a dropped one would be rejected as `column_renamed`."""
        if self._added and self._dice.random() < 0.3:
            self._source.run(f"ALTER TABLE items DROP COLUMN {self._added.pop()[0]}")
        else:
            of, value = next(self._types)
            self._added.append((f"added_{number}", value))
            self._source.run(f"ALTER TABLE items ADD COLUMN added_{number} {of}")


@pytest.fixture
def shop(source: PostgresSource) -> PostgresSource:
    source.run(*SCHEMA)
    return source


def is_recreated(gateway: Gateway, table: str) -> bool:
    status = gateway.status(table)
    return bool(status["generation"] == 2 and status["state"] == "active")


def signal_snapshot(source: PostgresSource, number: int) -> None:
    data = """{"data-collections": ["public.items", "public.pairs"], "type": "incremental"}"""
    source.run(f"INSERT INTO signals VALUES ('{number}', 'execute-snapshot', '{data}')")


def add_shop(running: Engine, source: PostgresSource, *, keyed: bool, **properties: str) -> None:
    chosen = {
        "heartbeat.interval.ms": "200",
        "provide.transaction.metadata": "true",
        "signal.data.collection": "public.signals",
        "incremental.snapshot.chunk.size": "64",
        "max.batch.size": "64",
        "tombstones.on.delete": str(keyed).lower(),
    }
    options = {"keyed": True, "parameters": ""} if keyed else {"parameters": ""}
    running.add("shop", source.properties() | chosen | properties, batch=10, **options)


def test_a_snapshot_and_the_stream_after_it_leave_the_rows_of_the_source(
    gateway: Gateway, shop: PostgresSource, tmp_path: Path, report: Report
) -> None:
    """With records as Kafka has them, tombstones, and no table that was registered before."""
    workload = Workload(shop, 1, changes_schema=False)
    workload.run(100)
    with engine(gateway, tmp_path) as running:
        shop.run("ALTER TABLE items REPLICA IDENTITY FULL")
        add_shop(running, shop, keyed=True)
        running.start()
        pass_fence(shop, running)
        workload.run(100)
        pass_fence(shop, running)
    rows = compare(gateway, shop, "public.items", "id") + compare(gateway, shop, "public.pairs", "b", "a")
    verify_zone(gateway)
    report.add(f"Debezium {debezium_version()}, Postgres", rows)


@pytest.mark.parametrize("changing", ["columns", "incremental snapshots"])
def test_killed_at_random_points_it_loses_and_repeats_nothing(
    gateway: Gateway, shop: PostgresSource, tmp_path: Path, report: Report, changing: str
) -> None:
    """With large values that updates omit.

    Columns do not change during an incremental snapshot: the connector then takes the columns of the table as it is now
    for those of older events in the log, and ends.
    """
    declare(gateway, "public.items", {"id": "int32"}, partial_updates="complete", **SAFE)
    declare(gateway, "public.pairs", {"b": "string", "a": "int32"}, **SAFE)
    declare(gateway, "public.signals", {"id": "string"}, **SAFE)
    declare(gateway, "public.fence", {"id": "int32"}, **SAFE)
    snapshots = changing == "incremental snapshots"
    workload = Workload(shop, 2 if snapshots else 1, changes_schema=not snapshots)
    workload.run(20)
    with engine(gateway, tmp_path) as running:
        add_shop(running, shop, keyed=snapshots)
        running.kills = 2000 if snapshots else 1000
        running.start()
        pass_fence(shop, running)
        for number in range(3):
            if snapshots:
                signal_snapshot(shop, number)
            workload.run(40)
            pass_fence(shop, running)
        assert running.killed
    rows = compare(gateway, shop, "public.items", "id") + compare(gateway, shop, "public.pairs", "b", "a")
    verify_zone(gateway)
    report.add(f"Debezium {debezium_version()}, Postgres", rows)


def test_with_source_order_each_change_lands_once_although_the_engine_is_killed(
    gateway: Gateway, shop: PostgresSource, tmp_path: Path, report: Report
) -> None:
    shop.run("ALTER TABLE items REPLICA IDENTITY FULL")
    for table in ("items", "fence"):
        declare(gateway, f"public.{table}", {"id": "int32"}, source_order="enforce")
    workload = Workload(shop, 3, changes_schema=False)
    with engine(gateway, tmp_path) as running:
        add_shop(
            running,
            shop,
            keyed=False,
            **{"snapshot.mode": "no_data", "table.include.list": "public.items,public.fence"},
        )
        running.kills = 7000
        running.start()
        wait_until(
            lambda: shop.rows("SELECT slot_name FROM pg_replication_slots", "slot_name"), within=60, what="a slot"
        )
        workload.run(200)
        pass_fence(shop, running)
        assert running.killed
    rows = compare(gateway, shop, "public.items", "id")
    files = sorted((gateway.zone / "public.schema" / "items").glob("*.parquet"))
    assert sum(pq.read_metadata(file).num_rows for file in files) == workload.events
    report.add(f"Debezium {debezium_version()}, Postgres", rows)


def test_a_truncate_is_rejected_and_a_recreated_table_gets_its_rows_from_an_incremental_snapshot(
    gateway: Gateway, shop: PostgresSource, tmp_path: Path, report: Report
) -> None:
    declare(gateway, "public.fence", {"id": "int32"}, **SAFE)  # the engine repeats its changes after the rejection
    shop.run("INSERT INTO items SELECT i, 'n' FROM generate_series(1, 200) i")
    with engine(gateway, tmp_path) as running:
        add_shop(running, shop, keyed=True, **{"skipped.operations": "none"})
        running.start()
        pass_fence(shop, running)
        shop.run("TRUNCATE items", "INSERT INTO items SELECT i, 'm' FROM generate_series(100, 250) i")
        assert running.rejection() == "truncate_unsupported"
        running.connectors[0]["properties"]["skipped.operations"] = "t"
        running.start()
        pass_fence(shop, running)
        assert gateway.call("POST", "/v1/tables/public.items/recreate?generation=1").status_code == 202
        gateway.until(lambda: is_recreated(gateway, "public.items"), "the table is recreated")
        assert not landed(gateway, "public.items", "id")
        signal_snapshot(shop, 1)
        wanted = shop.rows("SELECT id FROM items", "id").keys()
        gateway.until(lambda: landed(gateway, "public.items", "id").keys() == wanted, "a snapshot")
        running.check()
    rows = compare(gateway, shop, "public.items", "id")
    verify_zone(gateway)
    report.add(f"Debezium {debezium_version()}, Postgres", rows)
