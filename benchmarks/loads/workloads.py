"""The fixed workloads. A name defines a workload, so that every process makes the same bytes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.loads.debezium import KEY, debezium_inserts
from benchmarks.loads.messages import (
    CURSOR,
    arcion_delete,
    arcion_insert,
    arcion_update,
    column_names,
    replicate_insert,
    replicate_metadata,
)
from benchmarks.loads.replicate_avro import avro_insert, avro_metadata

COLUMNS: Final = 16
TABLES: Final = 1_000
FIRST_KEY: Final = 1_000_000_000
"""Keys have ten digits, so that a change of 16 columns has 1.47 kB."""
ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
AVRO: Final = "application/avro"
PARTIAL_ROWS: Final = 50_000
"""Rows that exist before the updates."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table as it is registered: half of its columns are numbers, and the first one is the key."""

    name: str
    columns: int = COLUMNS
    options: Mapping[str, Any] = field(default_factory=dict)

    def registration(self) -> dict[str, Any]:
        """Return the body of `PUT /v1/tables/{name}`."""
        names = column_names(self.columns)
        columns = [
            {"name": name, "type": "int64" if at < self.columns // 2 else "string", "nullable": at > 0}
            for at, name in enumerate(names)
        ]
        return {"key_columns": names[:1], "columns": columns, "options": dict(self.options)}


@dataclass(frozen=True, slots=True)
class Workload:
    """`body(n)` is request number n; there are `requests` different ones, which are sent again and again."""

    name: str
    tables: tuple[TableSpec, ...]
    per_request: int
    requests: int
    body: Callable[[int], bytes]
    source_format: str = "arcion"
    first: Callable[[], Iterator[bytes]] = lambda: iter(())
    """Requests to send once before all others."""
    repeated: Callable[[int, bytes, int], bytes] = lambda number, body, rounds: body
    """Return what request `number` with this body is in a later round: by default the same rows again."""
    query: str = ""
    media_type: str = "application/json"

    @property
    def path(self) -> str:
        """Return the path and query of its requests."""
        return f"/v1/changes/{self.source_format}{self.query}"

    def bodies(self) -> list[bytes]:
        """Return the bodies of all different requests."""
        return [self.body(number) for number in range(self.requests)]


def find_workload(name: str) -> Workload:
    """Return a fixed workload, or `columns-N` or `tables-N`, which differ only in that number."""
    kind, _, number = name.partition("-")
    if kind == "columns":
        return _inserts(name, TableSpec(f"bench.columns_{number}", columns=int(number)), 100, 64)
    if kind == "tables":
        return _in_turn(name, int(number), 100)
    return WORKLOADS[name]()


def _new_inserts(name: str, table: TableSpec) -> Workload:
    """Insert rows with new keys in every round: those of the first one, with other digits before the last three."""
    workload = _inserts(name, table, 1_000, 64)

    def repeated(number: int, body: bytes, rounds: int) -> bytes:
        prefix = FIRST_KEY // 1_000 + number
        return body.replace(b"%d" % prefix, b"%d" % (prefix + rounds * workload.requests))

    return replace(workload, repeated=repeated)


def _inserts(name: str, table: TableSpec, per_request: int, requests: int) -> Workload:
    names = column_names(table.columns)

    def body(number: int) -> bytes:
        first = FIRST_KEY + number * per_request
        return _encoded(arcion_insert(table.name, names, key) for key in range(first, first + per_request))

    return Workload(name, (table,), per_request, requests, body)


def _deletes(name: str, table: TableSpec) -> Workload:
    """Insert 500 rows with each request, and delete them by their keys."""
    names = column_names(table.columns)

    def body(number: int) -> bytes:
        keys = range(FIRST_KEY + number * 500, FIRST_KEY + (number + 1) * 500)
        messages = [*(arcion_insert(table.name, names, key) for key in keys)]
        return _encoded(messages + [arcion_delete(table.name, names, key) for key in keys])

    return Workload(name, (table,), 1_000, 64, body)


def _in_turn(name: str, count: int, per_request: int) -> Workload:
    """Feed one table with each request, the tables in turn."""
    tables = tuple(TableSpec(f"bench.table_{number:04d}") for number in range(count))
    names = column_names(COLUMNS)

    def body(number: int) -> bytes:
        first = FIRST_KEY + number * per_request
        table = tables[number % count].name
        return _encoded(arcion_insert(table, names, key) for key in range(first, first + per_request))

    return Workload(name, tables, per_request, max(count, 64), body)


def _one_in_each_table() -> Workload:
    tables, names = _in_turn("many-tables", TABLES, 1).tables, column_names(COLUMNS)

    def body(number: int) -> bytes:
        return _encoded(arcion_insert(table.name, names, FIRST_KEY + number) for table in tables)

    return Workload("one-in-each-table", tables, TABLES, 16, body)


def _replicate() -> Workload:
    table, names = TableSpec("BENCH.REPLICATE"), column_names(COLUMNS)

    def first() -> Iterator[bytes]:
        yield _encoded([replicate_metadata(table.name, names)])

    def body(number: int) -> bytes:
        first = FIRST_KEY + number * 1_000
        return _encoded(replicate_insert(names, key) for key in range(first, first + 1_000))

    return Workload("replicate", (), 1_000, 64, body, source_format="replicate", first=first)


def _replicate_avro() -> Workload:
    """Insert the rows of `replicate` as Avro messages, one envelope after the other."""
    table, names = TableSpec("BENCH.AVRO"), column_names(COLUMNS)

    def first() -> Iterator[bytes]:
        yield avro_metadata(table.name, names)

    def body(number: int) -> bytes:
        first = FIRST_KEY + number * 1_000
        return b"".join(avro_insert(table.name, names, key) for key in range(first, first + 1_000))

    return Workload("replicate-avro", (), 1_000, 64, body, "replicate", first=first, media_type=AVRO)


def _log_in_order(name: str, options: Mapping[str, Any]) -> Workload:
    """Insert rows in the order of their source's log, 16 tables in turn; each round is in the next file of the log.

    With fewer connections than tables, the requests of one table follow one another.
    """
    tables = tuple(TableSpec(f"bench.{name.replace('-', '_')}_{number:02d}", options=options) for number in range(16))
    names = column_names(COLUMNS)

    def body(number: int) -> bytes:
        table, first = tables[number % len(tables)], FIRST_KEY + number * 1_000
        return _encoded(
            arcion_insert(table.name, names, key) | {"cursor": CURSOR.replace("7461", str(key))}
            for key in range(first, first + 1_000)
        )

    def repeated(_: int, body: bytes, rounds: int) -> bytes:
        return body.replace(b"log-bin.000010", b"log-bin.%06d" % (10 + rounds))

    return Workload(name, tables, 1_000, 64, body, repeated=repeated)


def _debezium() -> Workload:
    table = "bench.debezium"

    def body(number: int) -> bytes:
        first = FIRST_KEY + number * 1_000
        return _encoded(debezium_inserts(table, range(first, first + 1_000)))

    return Workload("debezium", (), 1_000, 16, body, source_format="debezium", query=f"?key_columns={KEY}")


def _updates(name: str, table: TableSpec) -> Workload:
    """Update existing rows: four of sixteen columns with completion, or full images."""
    names = column_names(table.columns)
    given = 4 if "partial_updates" in table.options else table.columns

    def first() -> Iterator[bytes]:
        for start in range(FIRST_KEY, FIRST_KEY + PARTIAL_ROWS, 1_000):
            yield _encoded(arcion_insert(table.name, names, key) for key in range(start, start + 1_000))

    def body(number: int) -> bytes:
        keys = (FIRST_KEY + 7 * (number * 1_000 + at) % PARTIAL_ROWS for at in range(1_000))
        return _encoded(arcion_update(table.name, names, key, given=given) for key in keys)

    return Workload(name, (table,), 1_000, 50, body, first=first)


def _initial_load() -> Workload:
    table, rows = TableSpec("bench.load"), 20_000
    body = partial(_arrow_stream, rows)
    return Workload("load", (table,), rows, 16, body, "arrow", query="?table=bench.load", media_type=ARROW_STREAM)


def _plain_rows(name: str, media_type: str, body: Callable[[int], bytes]) -> Workload:
    """Upsert 1,000 plain rows a request."""
    table = TableSpec("bench.rows")
    return Workload(name, (table,), 1_000, 64, body, "rows", query="?table=bench.rows", media_type=media_type)


def _row_lines(number: int) -> bytes:
    return b"".join(msgspec.json.encode(row) + b"\n" for row in _rows(number))


def _row_records(number: int) -> bytes:
    lines = [",".join(column_names(COLUMNS)), *(",".join(map(str, row.values())) for row in _rows(number))]
    return "\n".join(lines).encode()


def _rows(number: int) -> Iterator[Mapping[str, Any]]:
    """Yield the values of the inserts of `bulk`, with numbers as numbers."""
    names, first = column_names(COLUMNS), FIRST_KEY + number * 1_000
    for key in range(first, first + 1_000):
        yield {name: key if at < COLUMNS // 2 else f"text of row {key}" for at, name in enumerate(names)}


def _arrow_stream(rows: int, number: int) -> bytes:
    names = column_names(COLUMNS)
    keys = pa.array(range(FIRST_KEY + number * rows, FIRST_KEY + (number + 1) * rows), pa.int64())
    texts = pc.binary_join_element_wise("text of row", pc.cast(keys, pa.string()), " ")
    batch = pa.record_batch({name: keys if at < COLUMNS // 2 else texts for at, name in enumerate(names)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _encoded(messages: Any) -> bytes:
    return msgspec.json.encode(list(messages))


PROJECTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "audited": {"audit_columns": {"operation": "op", "source_timestamp": "ts", "accepted_at": "at", "row_order": "n"}},
    "transformed": {
        "rename": {"column_08": "renamed"},
        "constants": {"region": {"type": "string", "value": "EU"}},
        "masks": {"column_09": {"method": "truncate", "characters": 8}, "column_10": {"method": "null"}},
        "filter": {"column": "column_01", "op": ">=", "value": "0"},
    },
    "hashed": {"masks": {"column_09": {"method": "hash"}}},
    "derived": {"derive": {"label": "column_08 || ' ' || column_09", "product": "column_01 * column_02"}},
}
"""Options of tables whose files have other columns or values than the source."""

FLAGGED: Final[Mapping[str, Any]] = {
    "deletes": "flag",
    "row_images": "on",
    "audit_columns": {"deleted": "is_deleted"},
}
"""Options of a table whose deleted rows stay in the mirror."""

MASK_SECRET: Final = "a secret for the hashes of benchmarks"
"""The secret that `hashed` needs of a gateway."""

WORKLOADS: Final[Mapping[str, Callable[[], Workload]]] = {
    "bulk": partial(_inserts, "bulk", TableSpec("bench.bulk"), 1_000, 64),
    "small-1": partial(_inserts, "small-1", TableSpec("bench.small"), 1, 5_000),
    "small-10": partial(_inserts, "small-10", TableSpec("bench.small"), 10, 2_000),
    "small-100": partial(_inserts, "small-100", TableSpec("bench.small"), 100, 500),
    "large": partial(_inserts, "large", TableSpec("bench.large"), 11_400, 8),
    "wide": partial(_inserts, "wide", TableSpec("bench.wide", columns=200), 100, 64),
    "many-tables": partial(_in_turn, "many-tables", TABLES, 10),
    "one-in-each-table": _one_in_each_table,
    "replicate": _replicate,
    "replicate-avro": _replicate_avro,
    "debezium": _debezium,
    "log-arrival": partial(_log_in_order, "log-arrival", {}),
    "log-enforce": partial(_log_in_order, "log-enforce", {"source_order": "enforce"}),
    "load": _initial_load,
    "rows": partial(_plain_rows, "rows", "application/x-ndjson", _row_lines),
    "rows-csv": partial(_plain_rows, "rows-csv", "text/csv", _row_records),
    "rows-arrow": partial(_plain_rows, "rows-arrow", ARROW_STREAM, partial(_arrow_stream, 1_000)),
    "partial": partial(_updates, "partial", TableSpec("bench.partial", options={"partial_updates": "complete"})),
    "whole": partial(_updates, "whole", TableSpec("bench.whole")),
    "kept": partial(_updates, "kept", TableSpec("bench.kept", options={"row_images": "on"})),
    "flagged": partial(_deletes, "flagged", TableSpec("bench.flagged", options=FLAGGED)),
    "deleted": partial(_deletes, "deleted", TableSpec("bench.deleted")),
    **{
        name: partial(_inserts, name, TableSpec(f"bench.{name}", options=options), 1_000, 64)
        for name, options in PROJECTIONS.items()
    },
    "new": partial(_new_inserts, "new", TableSpec("bench.new")),
    "new-kept": partial(_new_inserts, "new-kept", TableSpec("bench.new_kept", options={"row_images": "on"})),
}
