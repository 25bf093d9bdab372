"""The decoders of bytes from outside: each returns a result or a rejection, and raises nothing else."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec
import pyarrow as pa

from app.domain.arrow import columns_of, decode_payload, encode_payload, schema_from_bytes, schema_to_flatbuffer
from app.domain.model.change import InputLimits, Operation
from app.domain.model.table import BatchSequence, Table, with_landing
from app.domain.model.table_options import PartialUpdates, TableOptions, TimestampUnit
from app.domain.model.table_schema import ColumnType, TableSchema
from app.domain.rows.conversion import BadValues, convert, scalar
from app.domain.rows.from_arrow import changed_rows, snapshot_rows
from app.domain.rows.landing_projection import Acceptance, landed, row_bytes
from app.domain.rows.landing_rows import LandingRows, landing_rows, landing_rows_of_shaped
from app.domain.rows.row_rules import RowRules, ShapedChanges
from app.formats.arcion.columnar import ArcionTableReader, decode_columnar
from app.formats.arcion.csv import decode_arcion_csv
from app.formats.arcion.messages import decode_arcion
from app.formats.arrow import decode_arrow_stream
from app.formats.columnar import NotColumnar
from app.formats.csv import trimmed_columns
from app.formats.debezium.connect_schema import check_keys, renamed_columns, row_fields, wanted_schema
from app.formats.debezium.messages import RecordReader
from app.formats.debezium.records import ChangeRecord, DebeziumRecords, decode_debezium
from app.formats.debezium.values import DebeziumReading, DecimalForm, Tombstones
from app.formats.json.decoder import MessageDecoder
from app.formats.replicate.history import SchemaAnnouncements, SourceVersion, VersionResolver, extend, table_of
from app.formats.replicate.messages import decode_replicate
from app.formats.replicate.metadata import by_table
from app.formats.rows.columnar import CsvBody, CsvReader, RowReader, RowsBody, split_operations
from app.formats.rows.messages import OPERATION_COLUMN, OPERATIONS, RowsLayout, decode_csv_rows, decode_rows
from app.ingest.request_typing import needed_schema
from mirrorgate.avro_envelope import read_envelopes
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import CsvDialect, CsvLayout, CsvMode, RowOperation
from tests.memory.multiple import FIXED_BYTES, MULTIPLE, Counted, measured
from tests.support.columnar_replicate import check_agreement
from tests.support.samples.messages import metadata
from tests.support.samples.schemas import active_table, schema_of

LAYOUTS: Final = (
    CsvLayout(CsvMode.SNAPSHOT, ("a", "b")),
    CsvLayout(CsvMode.REALTIME, ("a", "b")),
    CsvLayout(CsvMode.SNAPSHOT, header=True),
    CsvLayout(CsvMode.REALTIME, header=True),
    CsvLayout(CsvMode.SNAPSHOT, ("a",), delimiter="|", quote="'", escape="\\"),
)
TYPES: Final = tuple(
    ColumnType.parse(name)
    for name in (
        *("boolean", "int16", "int32", "int64", "float32", "float64", "date", "timestamp", "string", "binary", "json"),
        *("decimal(38,0)", "decimal(38,38)", "decimal(5,2)"),
    )
)
TABLE: Final = schema_of({"id": "int64", "name": "string", "note": "string"}, ["id"])
FULL_IMAGES: Final = RowRules(TABLE)
KIN: Final[Sequence[tuple[Callable[[pa.DataType], bool], Sequence[str]]]] = (
    (pa.types.is_integer, ("int64", "int16", "int32")),
    (pa.types.is_floating, ("float64", "float32")),
    (pa.types.is_decimal, ("decimal(38,10)", "decimal(5,2)", "decimal(38,38)", "decimal(38,0)")),
    (pa.types.is_timestamp, ("timestamp",)),
    (pa.types.is_date, ("date",)),
    (pa.types.is_boolean, ("boolean", "string")),
    (pa.types.is_string, ("string", "json")),
    (pa.types.is_large_string, ("string", "json")),
    (lambda of_type: pa.types.is_binary(of_type) or pa.types.is_large_binary(of_type), ("binary",)),
    (pa.types.is_fixed_size_binary, ("binary",)),
    (pa.types.is_nested, ("json", "string")),
)
"""What a column of the first kind may land as."""


def _memory_table(columns: int, **options: Any) -> Table:
    schema = schema_of({"id": "int64", **{f"c{at}": "int16" for at in range(columns)}})
    parsed = TableOptions.parse(options)
    return active_table(with_landing(schema, parsed), parsed)


MEMORY_TABLES: Final = (
    _memory_table(400),
    _memory_table(2, constants={"k": {"type": "string", "value": "x" * 4_096}}),
    _memory_table(20, audit_columns={"operation": "_o", "accepted_at": "_a", "row_order": "_r"}),
)
"""Tables whose rows are far longer than their messages."""

MAX_ARROW_BYTES: Final = 2**22


def _hold_little(size: int) -> None:
    if size > MAX_ARROW_BYTES:
        raise RejectedInput(Code.BODY_TOO_LARGE, "too many bytes")


ARROW_LIMITS: Final = InputLimits(messages=10_000, value_bytes=1_000, reserve=_hold_little)
SAMPLE_ENTRY: Final = decode_replicate(
    msgspec.json.encode(
        metadata(
            "S.T",
            {
                "ID": "INT8",
                "NAME": "WSTRING",
                "AMOUNT": {"type": "NUMERIC", "precision": 12, "scale": 2},
                "NOTE": "NCLOB",
            },
            ("ID",),
            schema_id="one",
        )
    )
).metadata[0]
"""The metadata of most samples."""

COMPLETING: Final = RowRules(
    schema_of({"id": "int64", "name": "string", "note": "string"}, ["id"], required=["id", "name"]),
    TableOptions(partial_updates=PartialUpdates.COMPLETE),
)


ROWS_TABLE: Final = schema_of(
    {"id": "int64", "amount": "decimal(38,2)", "name": "string", "doc": "json"}, ["id"], required=["id"]
)
ROWS_RULES: Final = (
    RowRules(ROWS_TABLE),
    RowRules(ROWS_TABLE, TableOptions(partial_updates=PartialUpdates.COMPLETE), images_complete=True),
    RowRules(ROWS_TABLE, TableOptions(partial_updates=PartialUpdates.COMPLETE)),
)


DEBEZIUM_READINGS: Final = (
    DebeziumReading(),
    DebeziumReading(True, ("id",), (("*", TimestampUnit.MICROS),), DecimalForm.BASE64, Tombstones.DELETE, ("none",)),
    DebeziumReading(False, (), (("at", TimestampUnit.NANOS),), tombstones=Tombstones.IGNORE),
)
DEBEZIUM_TABLE: Final = schema_of(
    {"id": "int64", "day": "date", "at": "timestamp", "price": "decimal(38,2)", "raw": "binary", "doc": "json"}, ["id"]
)


def as_columns(read: Callable[[], Sequence[ShapedChanges]], rules: RowRules) -> LandingRows | None:
    """Return the rows of a body that the columnar path reads, None if it leaves the body to the exact path."""
    try:
        changes = read()
    except (NotColumnar, ValueError, RecursionError):
        return None
    rows = landing_rows_of_shaped(changes, rules) if len(changes) == 1 else None
    return rows and rows[0]


def check_paths_agree(read_exactly: Callable[[], LandingRows], columnar: LandingRows | None) -> LandingRows:
    """Check that the columnar path gave the rows of the exact path, or nothing. Return them, or raise RejectedInput."""
    try:
        rows = read_exactly()
    except RejectedInput:
        assert columnar is None
        raise
    assert columnar is None or (columnar.batch.equals(rows.batch) and replace(columnar, batch=rows.batch) == rows)
    return rows


def arcion_json(body: bytes) -> None:
    """Messages, then rows of the table that the samples are for, with and without row images.

    The plain way gives the same, or nothing.
    """
    with suppress(RejectedInput):
        _arcion_rows(body, COMPLETING)
    _arcion_rows(body, FULL_IMAGES)


def _arcion_rows(body: bytes, rules: RowRules) -> None:
    check_paths_agree(partial(exact_arcion, body, rules), columnar_arcion(body, rules))


def exact_arcion(body: bytes, rules: RowRules) -> LandingRows:
    """Read Arcion's messages on the exact path."""
    return landing_rows([addressed.change for addressed in decode_arcion(body)], rules)


def columnar_arcion(body: bytes, rules: RowRules) -> LandingRows | None:
    """Decode a large body into columns, if it qualifies."""
    (decoded,) = decode_columnar([body])
    if decoded is None:
        return None
    parts = [part for _, part in decoded.parts]
    return as_columns(lambda: ArcionTableReader.of(rules.schema.names).read(parts), rules)


def arcion_csv(body: bytes) -> None:
    """Decode CSV; the first byte says how the rest is written."""
    if body:
        decode_arcion_csv(body[1:], LAYOUTS[body[0] % len(LAYOUTS)], frozenset({"a"}))


def plain_rows(body: bytes) -> None:
    """Plain rows, then those of a table with and without row images. The columnar path gives the same, or nothing."""
    for rules in ROWS_RULES:
        for operation in RowOperation:
            columnar = columnar_rows(body, operation, rules)
            with nullcontext() if operation is RowOperation.UPSERT else suppress(RejectedInput):
                check_paths_agree(partial(exact_rows, body, operation, rules), columnar)


def exact_rows(body: bytes, operation: RowOperation, rules: RowRules) -> LandingRows:
    """Read plain rows on the exact path."""
    return landing_rows(decode_rows(body, operation, frozenset(rules.schema.names)).changes, rules)


def columnar_rows(
    body: bytes, operation: RowOperation, rules: RowRules, max_rows: int = 1_000_000
) -> LandingRows | None:
    """Read plain rows on the columnar path, if they qualify."""
    content = RowsBody(body, OPERATIONS[operation], max_rows)
    return as_columns(lambda: RowReader(rules.schema.names).read([content]), rules)


def plain_rows_csv(body: bytes) -> None:
    """Rows in CSV; the first byte says how the rest is written. The columnar path gives the same, or nothing."""
    if body:
        dialect = CsvDialect() if body[0] % 2 else CsvDialect("|", "'", "\\")
        for rules in ROWS_RULES:
            with nullcontext() if rules is ROWS_RULES[0] else suppress(RejectedInput):
                check_csv_paths_agree(body[1:], dialect, rules)


def check_csv_paths_agree(body: bytes, dialect: CsvDialect, rules: RowRules) -> LandingRows:
    """Check that both paths read rows in CSV alike, see `check_paths_agree`."""
    return check_paths_agree(partial(exact_csv_rows, body, dialect, rules), columnar_csv_rows(body, dialect, rules))


def exact_csv_rows(body: bytes, dialect: CsvDialect, rules: RowRules) -> LandingRows:
    """Read plain rows in CSV on the exact path."""
    layout = RowsLayout(RowOperation.UPSERT, dialect)
    return landing_rows(decode_csv_rows(body, layout, trimmed_columns(rules.schema)).changes, rules)


def columnar_csv_rows(
    body: bytes, dialect: CsvDialect, rules: RowRules, max_rows: int = 1_000_000
) -> LandingRows | None:
    """Read plain rows in CSV on the columnar path, if they qualify."""
    reader = CsvReader(rules.schema.names, trimmed_columns(rules.schema))
    return as_columns(lambda: reader.read([CsvBody(body, dialect, Operation.MERGE, max_rows)]), rules)


def replicate(body: bytes) -> None:
    """Decode a request for tables that only the request itself declares.

    The columnar path gives the same for the first table of the samples, or nothing.
    """
    for version in (SourceVersion.of(SAMPLE_ENTRY), None):
        check_agreement(body, version, RowRules(SAMPLE_ENTRY.schema))
    request = decode_replicate(body)
    metadata = by_table(request.metadata)
    resolvers = defaultdict(lambda: VersionResolver(None))
    announced = SchemaAnnouncements(request.metadata)
    for table, entries in metadata.items():
        extend(None, entries)
        resolvers[table] = VersionResolver(None, entries)
    changes = defaultdict(list)
    for message in request.changes:
        described = {entry.table for entry in request.metadata if entry.schema_id == message.schema_id}
        named = message.source and message.source.table
        table = table_of(message, named, announced.table(message), lambda: described).folded  # noqa: B023  # called at once
        change, _ = resolvers[table].resolve(message)
        changes[table].append(change)
    for table, entries in metadata.items():
        landing_rows(changes[table], entries[-1].schema_after(None))


def replicate_avro(body: bytes) -> None:
    """Decode envelopes whose schemas only the request itself declares."""
    envelopes = read_envelopes(body)
    if envelopes:
        replicate(b"\n".join([one.to_json() for one in envelopes]))


def debezium(body: bytes) -> None:
    """Debezium's events in each reading, for a registered table and for the tables that their schemas declare."""
    for reading in DEBEZIUM_READINGS:
        try:
            decoded = decode_debezium(body, reading, keep_rejected=True)
        except RejectedInput:
            continue
        _land_records(decoded, reading, _completing(DEBEZIUM_TABLE))
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
    table = _completing(schema)
    assert wanted_schema(fields, keys, table) is None
    assert not [*renamed_columns(fields, table)]
    check_keys(keys, table)
    _land_records(decoded, reading, table)


def _land_records(decoded: DebeziumRecords, reading: DebeziumReading, table: Table) -> None:
    reader = RecordReader(table, reading)
    for record in decoded.records:
        try:
            change = reader.change(record)
            schema = needed_schema([change], table)
            landing_rows([change], RowRules(schema, table.options))
        except RejectedInput:
            continue


def _completing(schema: TableSchema) -> Table:
    options = TableOptions(partial_updates=PartialUpdates.COMPLETE if schema.key_columns else PartialUpdates.REJECT)
    return active_table(schema, options)


def arrow_schema(content: bytes) -> None:
    """Whatever is taken can be registered, stored and served again."""
    schema = TableSchema.declare(columns_of(schema_from_bytes(content)), ())
    served = columns_of(schema_from_bytes(schema_to_flatbuffer(schema.file_schema(marker_first=True))))
    assert [(column.name, column.type.arrow) for column in served] == [(c.name, c.type.arrow) for c in schema.columns]


def arrow_stream(body: bytes) -> None:
    """Whatever is taken lands in tables of the types that it may be for, and can be staged and read again."""
    given = decode_arrow_stream(body, ARROW_LIMITS.adding())
    rejections = []
    for rules in _tables_for(given.schema):
        try:
            rows = snapshot_rows(given, rules, max_value_bytes=1_000, reserve=ARROW_LIMITS.adding().reserve)
        except RejectedInput as error:
            rejections.append(error)
        else:
            staged = decode_payload(encode_payload([rows.batch]).message, rules.schema.arrow)
            assert repr(staged.to_pylist()) == repr(rows.batch.to_pylist())
            if OPERATION_COLUMN not in given.schema.names:
                values, operations = split_operations(given, RowOperation.INSERT)
                reserve = ARROW_LIMITS.adding().reserve
                inserted = changed_rows(values, operations, rules, max_value_bytes=1_000, reserve=reserve)
                assert repr(inserted.batch.to_pylist()) == repr(rows.batch.to_pylist()), "as inserted plain rows"
    if rejections:
        raise rejections[0]


def _tables_for(given: pa.Schema) -> Iterator[RowRules]:
    """Yield rules of tables with one column more, whose other types are those that Arrow's can become."""
    for number in range(max((len(_kin_of(field.type)) for field in given), default=0)):
        columns = {field.name: kin[number % len(kin)] for field in given for kin in [_kin_of(field.type)]}
        updates = PartialUpdates.COMPLETE if number == 0 else PartialUpdates.REJECT
        options = TableOptions(partial_updates=updates, source_timezone="UTC" if number else "Europe/Berlin")
        keys = [given.names[0]] if number == 0 else []
        yield RowRules(schema_of({**columns, "absent": "json"}, keys), options)


def _kin_of(of_type: pa.DataType) -> Sequence[str]:
    return next((kin for is_kind, kin in KIN if is_kind(of_type)), ("string",))


def conversion(body: bytes) -> None:
    """Convert a column: the first byte is its type. The fast conversions must give what the definition gives."""
    column_type = TYPES[(body or b"\0")[0] % len(TYPES)]
    values = _column(body[1:])
    reasons, expected = {}, []
    for place, value in enumerate(values):
        try:
            expected.append(scalar(value, column_type))
        except ValueError as error:
            reasons[place] = str(error)
    try:
        converted = convert(values, column_type)
    except BadValues as error:
        assert error.reasons == reasons
    else:
        assert not reasons
        assert repr(converted.to_pylist()) == repr(pa.array(expected, column_type.arrow).to_pylist())


def _column(body: bytes) -> Sequence[Any]:
    """Return a JSON list as decoders read it, else one text per line."""
    try:
        values: list[Any] = _COLUMN.decode(b'{"values":' + body + b"}")[0].values
        return values
    except RejectedInput:
        return [None if line == "NULL" else line for line in body.decode(errors="replace").split("\n")]


class _Column(msgspec.Struct):
    values: list[Any]


_COLUMN: Final = MessageDecoder(_Column)


def row_memory(body: bytes) -> None:
    """Plain rows of the table that the first byte says: they take at most a multiple of what they count."""
    if body:
        table = MEMORY_TABLES[body[0] % len(MEMORY_TABLES)]
        rules, counted = RowRules.of(table), Counted(len(body))
        with measured() as peak, suppress(RejectedInput):
            changes = decode_rows(body[1:], RowOperation.INSERT, frozenset(table.schema.names), counted.limits).changes
            counted.limits.reserve(len(changes) * row_bytes(rules))
            landed(landing_rows(changes, rules), table, Acceptance(BatchSequence(1), datetime.now(UTC)))
        assert peak.size <= MULTIPLE * counted.size + FIXED_BYTES, (peak.size, counted.size)


DECODERS: Final[dict[str, Callable[[bytes], None]]] = {
    decode.__name__: decode
    for decode in (
        *(
            arcion_json,
            arcion_csv,
            replicate,
            replicate_avro,
            debezium,
            plain_rows,
            plain_rows_csv,
            arrow_schema,
            arrow_stream,
            conversion,
            row_memory,
        ),
    )
}


def tried(decoder: str, data: bytes) -> None:
    """Give the bytes to the decoder. Raises whatever is not a declared rejection."""
    with suppress(RejectedInput):
        DECODERS[decoder](data)
