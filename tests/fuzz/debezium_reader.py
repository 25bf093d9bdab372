"""Differential fuzzing of Debezium's envelopes; the tables are as the schemas of the events need them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from app.domain.model.change import Change
from app.domain.model.names import SourceName, TableName
from app.domain.model.table import Table, TableId
from app.domain.model.table_options import DEFAULT_OPTIONS, PartialUpdates, TableOptions, TimestampUnit
from app.domain.model.table_schema import TableSchema
from app.domain.rows.row_rules import RowRules
from app.formats.debezium.connect_schema import check_keys, read_schema, row_fields, wanted_schema
from app.formats.debezium.messages import RecordReader
from app.formats.debezium.records import ChangeRecord, decode_debezium, row_schema
from app.formats.debezium.values import DebeziumReading
from app.ingest.columnar import Asked, ColumnarBody
from app.ingest.readers import DebeziumJson
from app.ingest.table_cache import TableCache
from mirrorgate.errors import Code, RejectedInput
from tests.fuzz import debezium_bodies
from tests.support.forms.reading import ANYONE
from tests.support.samples.schemas import active_table, no_database

_READING: Final = DebeziumReading(timestamps=(("*", TimestampUnit.MICROS),), unavailable=("/dbz",))
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {"s.keys": ("a", "b")}
_OPTIONS: Final = {"s.filled": TableOptions(partial_updates=PartialUpdates.COMPLETE)}


class DebeziumReader:
    """Debezium with `timestamps=*:micros`, for bodies without a schema."""

    def __init__(self) -> None:
        self.tables = debezium_bodies.KINDS
        self.message = debezium_bodies.debezium_message
        self._by_source = {
            SourceName.of(None, *name.split(".")): _table(name, number)
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


def bare_table(schema: TableSchema, options: TableOptions, name: str | TableName, number: int) -> Table:
    """Return a table whose files have no markers if it has no keys."""
    return active_table(replace(schema, bare=not schema.key_columns), options, name, number)


def _table(name: str, number: int) -> Table:
    row = row_schema(read_schema(json.loads(debezium_bodies.SCHEMAS[name])))
    assert row is not None
    keys = _KEYS.get(name, tuple(debezium_bodies.TABLES[name])[:1])
    schema = wanted_schema(row.fields, keys, None)
    assert schema is not None
    return bare_table(schema, _OPTIONS.get(name, DEFAULT_OPTIONS), name, number)
