"""Drive the write use case over a real database as its routes do: put tables, post messages, read the staged rows."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from app.domain.access.mask_secret import MaskSecret, hashes
from app.domain.access.rights import Principal, Right
from app.domain.model.names import TableName
from app.domain.model.table import Table
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema
from app.formats.arcion.csv import CsvLayout, CsvMode
from app.ingest import (
    ArcionCsv,
    ArcionJson,
    ArrowLoad,
    BodyReader,
    DebeziumJson,
    DebeziumReading,
    Ingest,
    IngestResult,
    ReplicateJson,
    RowOperation,
    RowsJson,
    perform_dry_run,
)
from app.ingest.dry_run import DryRunResult
from app.observability.api_metrics import INGEST_PATHS
from app.staging.access.mask_secrets import pin_mask_secret
from app.staging.tables.registration import Registration, register_table
from app.staging.writer.group_commit import GroupCommit
from tests.support.gateway_parts import current
from tests.support.samples.arrow_streams import stream, typed_rows
from tests.support.samples.debezium import event
from tests.support.samples.images import staged_rows
from tests.support.samples.messages import arcion, data

ADMIN = Principal("test", frozenset({Right.ADMIN}), ("*",))


@dataclass
class IngestHarness:
    """What one API process has: an engine, a writer and a cache of tables."""

    engine: sa.Engine
    ingest: Ingest
    others: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def other(self) -> "IngestHarness":
        """What a second API process has that uses the same database."""
        return self.others.enter_context(open_harness(self.engine))

    def put(self, name: str, schema: TableSchema | None = None, **options: Any) -> Registration:
        """Register a table; without options, an existing table keeps its own."""
        wanted = TableOptions.parse(options) if options else None
        secret = self.ingest.mask_secret
        with self.engine.begin() as connection:
            if secret is not None and hashes(wanted):
                pin_mask_secret(connection, secret)
            return register_table(connection, TableName.parse(name), schema, wanted)

    def table(self, name: str) -> Table:
        return current(self.engine, name)

    def arcion(self, *messages: Any, table: str | None = None, key: Principal = ADMIN, **others: Any) -> IngestResult:
        return self.accept(ArcionJson(_json(messages), named(table), **others), key)

    def csv(self, text: str, table: str, layout: CsvLayout, **others: Any) -> IngestResult:
        return self.accept(ArcionCsv(text.encode(), TableName.parse(table), layout, **others))

    def replicate(
        self, *messages: Any, table: str | None = None, key: Principal = ADMIN, **others: Any
    ) -> IngestResult:
        return self.accept(ReplicateJson(_json(messages), named(table), **others), key)

    def debezium(
        self, *messages: Any, table: str | None = None, key: Principal = ADMIN, keep: bool = False, **reading: Any
    ) -> IngestResult:
        reader = DebeziumJson(_json(messages), named(table), DebeziumReading(**reading), keep_rejected=keep)
        return self.accept(reader, key)

    def plain_rows(self, table: str, *rows: Any, **others: Any) -> IngestResult:
        return self.accept(RowsJson(_json(rows), TableName.parse(table), RowOperation.UPSERT, **others))

    def in_each_format(self, row: Mapping[str, Any], columns: pa.Schema) -> dict[str, int]:
        """Send an insert of this row in each format to a separate table; return the row marker for each."""
        texts = {name: str(value) for name, value in row.items()}
        self.arcion(arcion("a", None, texts))
        record = ",".join(f"{value},NULL,1" for value in texts.values())
        self.csv(f"{record},I,{{}},{{}}\n", "c", CsvLayout(CsvMode.REALTIME, tuple(row)))
        self.replicate(data("INSERT", row), table="r")
        self.debezium(event("c", "d", None, dict(row)), table="d")
        self.plain_rows("p", row)
        self.accept_load(ArrowLoad(TableName.parse("l"), stream(typed_rows([row], columns))))
        return {"a": 0, "c": 0, "r": 0, "d": 0, "p": 4, "l": 0}

    def accept(self, reader: BodyReader, key: Principal = ADMIN) -> IngestResult:
        return asyncio.run(self.ingest.accept(reader, key))

    def accept_load(self, load: ArrowLoad) -> IngestResult:
        return asyncio.run(load.accept(self.ingest, ADMIN, None))

    def dry_run(self, reader: BodyReader, key: Principal = ADMIN) -> DryRunResult:
        return asyncio.run(perform_dry_run(self.ingest, reader, key))

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return all rows staged for a table, in order; rows of older schema versions lack newer columns."""
        return staged_rows(self.engine, name)

    def landed(self, name: str, *columns: str) -> list[list[Any]]:
        """Return the marker and these columns of each staged row."""
        return [[row["__rowMarker__"], *(row.get(column) for column in columns)] for row in self.rows(name)]


@contextmanager
def open_harness(engine: sa.Engine, mask_secret: bytes | None = None) -> Iterator[IngestHarness]:
    """Yield a harness with its own writer and table cache."""
    writer = GroupCommit(engine)
    writer.start()
    ingest = Ingest(engine, writer, mask_secret=MaskSecret.given(mask_secret))
    try:
        with ExitStack() as others:
            yield IngestHarness(engine, ingest, others)
    finally:
        ingest.close()
        writer.close()


@contextmanager
def counted_paths(*expected: tuple[str, str, str]) -> Iterator[None]:
    """Check that the block counts one request for each of these formats, paths and reasons, and no other."""
    before = _paths()
    yield
    assert _paths() - before == Counter(expected)


def _paths() -> Counter[tuple[str, str, str]]:
    (family,) = INGEST_PATHS.collect()
    names = ("format", "path", "reason")
    totals = [sample for sample in family.samples if sample.name.endswith("_total")]
    return Counter({tuple(sample.labels[name] for name in names): int(sample.value) for sample in totals})


def named(table: str | None) -> TableName | None:
    return TableName.parse(table) if table else None


def _json(messages: Any) -> bytes:
    return json.dumps(list(messages)).encode()
