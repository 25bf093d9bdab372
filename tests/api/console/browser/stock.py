"""A gateway with tables in every state, rejected messages, keys and an hour of history, for tours and screenshots."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import httpx
import sqlalchemy as sa

from app.domain.publication import Failure
from app.staging.ledger.leases import renew_lease
from app.staging.ledger.reports import record_failure
from app.staging.rebuild.progress import Rebuild, end_check, note_rows, start_attempt
from mirrorgate.errors import Code
from tests.api.calls import Gateway
from tests.support.gateway_parts import current, quarantined
from tests.support.postgres import sql
from tests.support.postgres.ledger import ALL_IN_ONE_FILE, owned_now, publish_all

ORDERS: Final = {"order_id": "int64", "customer": "string", "placed_at": "timestamp", "total": "decimal(12,2)"}
HOUR: Final = """
    INSERT INTO mirrorgate.history (minute, sampled_at, seconds, accepted_rows, published_rows, pending_rows,
        oldest_seconds, table_ids, table_accepted_rows, table_published_rows, table_pending_rows, table_oldest_seconds)
    SELECT minute, minute, 60, accepted, published, pending, oldest,
        ARRAY[:table_id], ARRAY[accepted], ARRAY[published], ARRAY[pending], ARRAY[oldest]
    FROM (
        SELECT date_trunc('minute', now()) - make_interval(mins => ago) AS minute,
            (90000 + 30000 * sin(ago / 7.0) + 9000 * sin(ago * 2.3))::bigint AS accepted,
            (90000 + 30000 * sin((ago + 1) / 7.0) + 5000 * sin(ago * 1.9))::bigint AS published,
            (4000 + 3500 * sin(ago / 5.0))::bigint AS pending, 2 + 2.3 * (1 + sin(ago / 5.0)) AS oldest
        FROM generate_series(1, 59) AS ago) samples
    ON CONFLICT DO NOTHING"""
"""An hour of history in which one table does everything."""


@dataclass(frozen=True)
class Texts:
    """Texts that others choose and the console shows."""

    reason: str = "foreign_file: 00000000000000000007.parquet is not ours"
    failure: str = "No space left on device (ENOSPC)"
    column: str = "note"
    value: str = "not a number"
    producer: str = "orders-erp"
    pattern: str = "sales.*"
    key_name: str = "orders ERP"


@dataclass(frozen=True)
class Stock:
    """Fills an empty gateway by its own API, and by Postgres what only a drain does."""

    gateway: Gateway
    engine: sa.Engine
    texts: Texts = Texts()

    def fill(self, name: Callable[[str], str] = lambda name: name) -> None:
        """Make tables whose names are those that `name` returns."""
        for table in ("sales.orders", "sales.customers", "hr.people", "stock.levels", "web.clicks"):
            self.register(name(table))
            self.send(name(table), 40)
        quarantined(self.engine, name("hr.people"), self.texts.reason)
        self.publish(name("sales.orders"))
        self.publish(name("sales.customers"))
        self.fail(name("stock.levels"))
        self.pause(name("web.clicks"))
        self.reject(name("sales.orders"))
        self.send_by_a_producer(name("sales.customers"))
        self.make_keys()
        self.remember_an_hour(name("sales.orders"))
        self.rebuild(name("hr.people"), rows_read=1_200)
        self.check_a_rebuild(name("sales.orders"))
        done(self.gateway.post(f"/v1/tables/{name('sales.orders')}/loads", json={"mode": "full"}))

    def publish_and_send(self, table: str) -> None:
        """Register a table with a published batch of 40 rows and a waiting one of three."""
        self.register(table)
        self.send(table, 40)
        self.publish(table)
        self.send(table, 3, first=100)

    def register(self, table: str) -> None:
        columns = {**ORDERS, self.texts.column: "string"}
        done(self.gateway.register(table, columns, ["order_id"], dead_letters="accept", row_images="on"))

    def send(self, table: str, rows: int, first: int = 0) -> None:
        done(self.gateway.rows(table, *(self.row(first + number) for number in range(rows))))

    def row(self, number: int) -> dict[str, Any]:
        return {
            "order_id": number,
            "customer": f"C-{number % 7:03}",
            "placed_at": "2026-01-15T09:30:00Z",
            "total": f"{19 + number}.90",
            self.texts.column: None,
        }

    def publish(self, table: str) -> None:
        owned = owned_now(self.engine, table)
        sql.call(self.engine, renew_lease, owned.worker, 3_600)
        publish_all(self.engine, owned, ALL_IN_ONE_FILE)

    def fail(self, table: str) -> None:
        failure = Failure(Code.STORAGE_FAILED, self.texts.failure, "Free space on the volume of the landing zone.")
        for _ in range(3):
            sql.call(self.engine, record_failure, current(self.engine, table), failure)

    def pause(self, table: str) -> None:
        generation = self.gateway.status(table)["generation"]
        done(self.gateway.post(f"/v1/tables/{table}/pause", params={"generation": generation}))

    def reject(self, table: str) -> None:
        wrong = [{**self.row(900 + number), "total": self.texts.value} for number in range(2)]
        done(self.gateway.rows(table, *wrong, on_reject="dead_letter"))

    def send_by_a_producer(self, table: str) -> None:
        headers = {"Mirrorgate-Producer": self.texts.producer, "Mirrorgate-Producer-Sequence": "1"}
        body = {"params": {"table": table}, "json": [self.row(500)], "headers": headers}
        done(self.gateway.post("/v1/changes/rows", **body))

    def rebuild(self, table: str, *, rows_read: int, **wanted: Any) -> Rebuild:
        """Begin a rebuild or a dry run, of which a drain has read some of 5,000 rows."""
        done(self.gateway.post(f"/v1/tables/{table}/rebuild", params={"generation": 1}, json=wanted))
        return read_by_a_drain(self.engine, table, rows_read)

    def check_a_rebuild(self, table: str, seconds: int = 61) -> None:
        """End the dry run of a plan that fits: another type, and a column left out."""
        columns = [{"name": name, "type": declared} for name, declared in {**ORDERS, "total": "decimal(18,2)"}.items()]
        checked = self.rebuild(table, rows_read=5_000, dry_run=True, columns=columns)
        sql.call(self.engine, end_check, checked, (), estimated_seconds=seconds)

    def make_keys(self) -> None:
        for right, table in (("ingest", self.texts.pattern), ("read", "*")):
            self.gateway.new_key(right, name=self.texts.key_name, tables=[table])

    def remember_an_hour(self, table: str) -> None:
        sql.run(self.engine, HOUR, table_id=current(self.engine, table).table_id)


def read_by_a_drain(engine: sa.Engine, table: str, rows: int) -> Rebuild:
    """Begin an attempt, as a drain does, that has read some of 5,000 rows; return it."""
    rebuild = sql.call(engine, start_attempt, current(engine, table).table_id)
    assert rebuild is not None
    sql.call(engine, note_rows, rebuild, total=5_000, done=rows)
    return rebuild


def done(answer: httpx.Response) -> httpx.Response:
    assert answer.is_success, answer.text[:500]
    return answer
