"""How differential fuzzing calls the product: one reader per format, over tables that are cached, without Postgres."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

import msgspec

from app.domain.model.change import Change
from app.domain.model.names import SourceName, TableName
from app.domain.model.table import Table, TableId
from app.domain.model.table_options import DEFAULT_OPTIONS, PartialUpdates, TableOptions, TimestampUnit
from app.domain.model.table_schema import TableSchema
from app.domain.rows.row_rules import RowRules
from app.formats.arcion.messages import decode_arcion
from app.formats.debezium.connect_schema import check_keys, read_schema, row_fields, wanted_schema
from app.formats.debezium.messages import RecordReader
from app.formats.debezium.records import ChangeRecord, decode_debezium, row_schema
from app.formats.debezium.values import DebeziumReading
from app.formats.replicate.columnar_images import ImageReader
from app.formats.replicate.history import SourceHistory, SourceVersion, VersionResolver, table_of
from app.formats.replicate.messages import decode_replicate
from app.ingest.columnar import Asked, ColumnarBody
from app.ingest.readers import ArcionJson, DebeziumJson, ReplicateJson
from app.ingest.readers.replicate import CachedSource, SourceCache
from app.ingest.table_cache import TableCache
from mirrorgate.errors import Code, RejectedInput
from tests.fuzz import arcion_bodies, debezium_bodies, replicate_bodies
from tests.fuzz.bodies import Dice
from tests.support.forms.reading import ANYONE
from tests.support.samples.messages import metadata
from tests.support.samples.schemas import active_table, no_database, schema_of

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "keys": ("a", "b"),
    "loose": (),
    "S.KEYS": ("A", "B"),
    "s.keys": ("a", "b"),
}
"""Key columns by table, if not the first one."""
OPTIONS: Final[Mapping[str, TableOptions]] = dict.fromkeys(
    ("filled", "S.FILLED", "s.filled"), TableOptions(partial_updates=PartialUpdates.COMPLETE)
)


_READING: Final = DebeziumReading(timestamps=(("*", TimestampUnit.MICROS),), unavailable=("/dbz",))


class Reader(Protocol):
    """One format: makes messages, and reads bodies on both paths."""

    @property
    def tables(self) -> Sequence[str]:
        """The tables that messages can be made for."""

    @property
    def cache(self) -> TableCache:
        """Finds the tables."""

    @property
    def rules(self) -> Mapping[TableId, RowRules]:
        """The rules of each table."""

    def message(self, table: str, dice: Dice) -> str:
        """Return a random message for a table."""

    def request(self, body: bytes) -> Asked[ColumnarBody]:
        """Return the request that the columnar path reads."""

    def changes(self, body: bytes) -> Mapping[TableId, Sequence[Change]]:
        """Return what the exact path decodes, by table. Raises RejectedInput."""


def bare_table(schema: TableSchema, options: TableOptions, name: str | TableName, number: int) -> Table:
    """Return a table whose files have no markers if it has no keys."""
    return active_table(replace(schema, bare=not schema.key_columns), options, name, number)


class ArcionReader:
    """Arcion JSON without parameters."""

    def __init__(self) -> None:
        tables = {}
        for number, (name, columns) in enumerate(arcion_bodies.TABLES.items(), 1):
            schema = schema_of(columns, KEYS.get(name, tuple(columns)[:1]))
            options = OPTIONS.get(name, DEFAULT_OPTIONS)
            tables[SourceName.of(None, "shop", name)] = bare_table(schema, options, TableName.of("shop", name), number)
        self.tables = [*arcion_bodies.TABLES]
        self.cache = TableCache(no_database, dict(tables))
        self.rules = {table.table_id: RowRules.of(table) for table in tables.values()}
        self.message = arcion_bodies.arcion_message
        self._ids = {source: table.table_id for source, table in tables.items()}

    def request(self, body: bytes) -> Asked[ColumnarBody]:
        """Return the request that the columnar path reads."""
        return Asked(ArcionJson(body), ANYONE)

    def changes(self, body: bytes) -> Mapping[TableId, Sequence[Change]]:
        """Return what the exact path decodes, by table. Raises RejectedInput."""
        found: dict[TableId, list[Change]] = {}
        for source, change in ((addressed.source, addressed.change) for addressed in decode_arcion(body)):
            if source not in self._ids:
                raise RejectedInput(Code.UNKNOWN_TABLE, "no such table")
            found.setdefault(self._ids[source], []).append(change)
        return found


class ArcionNativeReader(ArcionReader):
    """Arcion JSON without `exists`."""

    def __init__(self) -> None:
        super().__init__()
        self.message = arcion_bodies.native_message


class ReplicateReader:
    """Replicate without parameters; metadata has described all tables but one."""

    def __init__(self) -> None:
        self.tables = replicate_bodies.KINDS
        self.message = replicate_bodies.replicate_message
        self.cache = TableCache(no_database)
        self.rules: dict[TableId, RowRules] = {}
        self._known: dict[TableName, tuple[TableId, SourceHistory | None]] = {}
        self._described: dict[str, list[TableName]] = {}
        for number, (name, columns) in enumerate(replicate_bodies.TABLES.items(), 1):
            self._register(number, name, columns)

    def _register(self, number: int, name: str, columns: Mapping[str, str]) -> None:
        keys = KEYS.get(name, tuple(columns)[:1])
        types = {column: {"type": kind, "precision": 9, "scale": 2} for column, kind in columns.items()}
        schema_id = replicate_bodies.schema_id(name)
        [entry] = decode_replicate(msgspec.json.encode(metadata(name, types, keys, schema_id=schema_id))).metadata
        schema = entry.schema_after(None)
        table = bare_table(schema, OPTIONS.get(name, DEFAULT_OPTIONS), name, number)
        version = None
        if name != replicate_bodies.UNDESCRIBED:
            version = SourceVersion.of(entry)
            if name == "S.KEYS":
                version = replace(version, external_schema_id=replicate_bodies.EXTERNAL_ID)
            self._described[schema_id] = [table.name]
            self.cache.described[schema_id] = frozenset({str(table.name)})
        for source in (SourceName.address(table.name), entry.source):
            self.cache._tables[source] = table
        reader = ImageReader(schema.names, frozenset(), version)
        SourceCache(self.cache).keep(CachedSource(table, version, reader))
        self.rules[table.table_id] = RowRules.of(table)
        self._known[table.name] = (table.table_id, SourceHistory((version,)) if version else None)

    def request(self, body: bytes) -> Asked[ColumnarBody]:
        """Return the request that the columnar path reads."""
        return Asked(ReplicateJson(body), ANYONE)

    def changes(self, body: bytes) -> Mapping[TableId, Sequence[Change]]:
        """Return what the exact path decodes, by table.

        Raises RejectedInput, also for what the exact path accepts and the columnar path must leave to it: metadata,
        messages without a body, and external schema ids that have to be stored.
        """
        request = decode_replicate(body)
        if request.metadata or request.ignored:
            raise RejectedInput(Code.MALFORMED_MESSAGE, "not only data")
        found: dict[TableId, list[Change]] = {}
        resolvers: dict[TableName, VersionResolver] = {}
        for message in request.changes:
            own = message.source and message.source.table
            described = self._described.get(message.schema_id or "", [])
            name = table_of(message, own, None, lambda: described)  # noqa: B023  # called at once
            if name not in self._known:
                raise RejectedInput(Code.UNKNOWN_TABLE, "no such table")
            table_id, history = self._known[name]
            resolver = resolvers.setdefault(name, VersionResolver(history))
            change, _ = resolver.resolve(message)
            found.setdefault(table_id, []).append(change)
        if any(resolver.adopted for resolver in resolvers.values()):
            raise RejectedInput(Code.SCHEMA_MISMATCH, "an external schema id has to be stored")
        return found


class DebeziumReader:
    """Debezium with `timestamps=*:micros`, for bodies without a schema."""

    def __init__(self) -> None:
        self.tables = debezium_bodies.KINDS
        self.message = debezium_bodies.debezium_message
        self._by_source = {
            SourceName.of(None, *name.split(".")): _debezium_table(name, number)
            for number, name in enumerate(debezium_bodies.TABLES, 1)
        }
        self.cache = TableCache(no_database, dict(self._by_source))
        self.rules = {table.table_id: RowRules.of(table) for table in self._by_source.values()}

    def request(self, body: bytes) -> Asked[ColumnarBody]:
        """Return the request that the columnar path reads."""
        return Asked(DebeziumJson(body, None, _READING), ANYONE)

    def changes(self, body: bytes) -> Mapping[TableId, Sequence[Change]]:
        """Return what the exact path decodes, by table. Raises RejectedInput, also if a schema needs another table."""
        records: dict[TableId, tuple[Table, list[ChangeRecord]]] = {}
        for record in decode_debezium(body, _READING).records:
            table = self._by_source.get(record.source) if record.source else None
            if table is None:
                raise RejectedInput(Code.UNKNOWN_TABLE, "no such table")
            _check(record, table)
            records.setdefault(table.table_id, (table, []))[1].append(record)
        found: dict[TableId, Sequence[Change]] = {}
        for table_id, (table, of_table) in records.items():
            reader = RecordReader(table, _READING)
            found[table_id] = [reader.change(record) for record in of_table]
        if not found:
            raise RejectedInput(Code.EMPTY_REQUEST, "no change")
        return found


def _check(record: ChangeRecord, table: Table) -> None:
    """Do what `DebeziumTables` does before it reads a record. Raises RejectedInput."""
    keys = None if record.key is None else record.key.names
    check_keys(keys, table)
    if record.row is not None:
        fields = row_fields(record.row, table, is_flattened=record.is_flattened)
        if wanted_schema(fields, keys, table) is not None:
            raise RejectedInput(Code.SCHEMA_MISMATCH, "the table has to change")


def _debezium_table(name: str, number: int) -> Table:
    row = row_schema(read_schema(json.loads(debezium_bodies.SCHEMAS[name])))
    assert row is not None
    keys = KEYS.get(name, tuple(debezium_bodies.TABLES[name])[:1])
    schema = wanted_schema(row.fields, keys, None)
    assert schema is not None
    return bare_table(schema, OPTIONS.get(name, DEFAULT_OPTIONS), name, number)


READERS: Final[Mapping[str, Callable[[], Reader]]] = {
    "arcion": ArcionReader,
    "arcion-native": ArcionNativeReader,
    "replicate": ReplicateReader,
    "debezium": DebeziumReader,
}
