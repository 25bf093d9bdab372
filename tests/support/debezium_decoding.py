"""Debezium's events for the fuzzer: any body becomes records, registrations and changes, or a declared rejection."""

from typing import Final

from app.domain.model.table import Table
from app.domain.model.table_options import PartialUpdates, TableOptions, TimestampUnit
from app.domain.model.table_schema import TableSchema
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_rules import RowRules
from app.formats.debezium.connect_schema import check_keys, renamed_columns, row_fields, wanted_schema
from app.formats.debezium.messages import RecordReader
from app.formats.debezium.records import ChangeRecord, DebeziumRecords, decode_debezium
from app.formats.debezium.values import DebeziumReading, DecimalForm, Tombstones
from app.ingest.request_typing import needed_schema
from mirrorgate.errors import RejectedInput
from tests.support.samples.schemas import active_table, schema_of

READINGS: Final = (
    DebeziumReading(),
    DebeziumReading(True, ("id",), (("*", TimestampUnit.MICROS),), DecimalForm.BASE64, Tombstones.DELETE, ("none",)),
    DebeziumReading(False, (), (("at", TimestampUnit.NANOS),), tombstones=Tombstones.IGNORE),
)
TYPED: Final = schema_of(
    {"id": "int64", "day": "date", "at": "timestamp", "price": "decimal(38,2)", "raw": "binary", "doc": "json"}, ["id"]
)


def debezium(body: bytes) -> None:
    """Read a body in each way, for a registered table and for the tables that its schemas declare."""
    for reading in READINGS:
        try:
            decoded = decode_debezium(body, reading, keep_rejected=True)
        except RejectedInput:
            continue
        _land(decoded, reading, _table(TYPED))
        for record in decoded.records:
            try:
                _register_and_land(decoded, record, reading)
            except RejectedInput:
                continue


def _register_and_land(decoded: DebeziumRecords, record: ChangeRecord, reading: DebeziumReading) -> None:
    """Register the table of one record, and land all records there. Raises RejectedInput."""
    if record.row is None:
        return
    keys = reading.key_columns or (() if record.key is None else record.key.names)
    fields = row_fields(record.row, None, is_flattened=record.is_flattened)
    schema = wanted_schema(fields, keys, None)
    assert schema is not None
    table = _table(schema)
    assert wanted_schema(fields, keys, table) is None
    assert not [*renamed_columns(fields, table)]
    check_keys(keys, table)
    _land(decoded, reading, table)


def _land(decoded: DebeziumRecords, reading: DebeziumReading, table: Table) -> None:
    reader = RecordReader(table, reading)
    for record in decoded.records:
        try:
            change = reader.change(record)
            schema = needed_schema([change], table)
            landing_rows([change], RowRules(schema, table.options))
        except RejectedInput:
            continue


def _table(schema: TableSchema) -> Table:
    options = TableOptions(partial_updates=PartialUpdates.COMPLETE if schema.key_columns else PartialUpdates.REJECT)
    return active_table(schema, options)
