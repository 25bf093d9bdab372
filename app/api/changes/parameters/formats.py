"""Query parameters of each format: Arcion, Arrow streams, Debezium, Replicate and plain rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

from pydantic import Field

from app.api.changes.parameters.common import (
    CHANGE_NAMES,
    DIALECT_NAMES,
    REQUIRED_TABLE,
    ChangeParameters,
    ChangeQuery,
    CsvDialectParameters,
    cached,
    given_table,
    names_in,
    query_values,
)
from app.api.server.request_parameters import Parameters, read_parameters
from app.domain.model.names import TableName
from app.domain.rows.source_order import MAX_PARTITION_CHARACTERS
from app.ingest import (
    ArcionCsv,
    ArcionJson,
    CsvLayout,
    CsvMode,
    DebeziumJson,
    DebeziumReading,
    DecimalForm,
    Declaration,
    MessageForm,
    Nanoseconds,
    ReplicateAvro,
    ReplicateJson,
    RowOperation,
    RowsCsv,
    RowsJson,
    RowsLayout,
    RowsOfStream,
    TableFrom,
    Tombstones,
    parse_declaration,
    parse_names,
    parse_units,
)
from mirrorgate.errors import Code, RejectedInput


class PartitionParameters(ChangeParameters):
    """Parameters of messages that have a position in the log of their source."""

    partition: Annotated[str | None, Field(min_length=1, max_length=MAX_PARTITION_CHARACTERS, pattern="^[!-~]+$")] = (
        None
    )
    """The partition of the topic that holds all messages. Tables with `source_order=enforce` keep one position per
    partition."""


class OverrideParameters(PartitionParameters):
    """Parameters of Arcion's JSON."""

    override: bool = False
    """Apply every message to `table`, even if the message names another one."""


class CsvParameters(CsvDialectParameters):
    """Parameters that describe the layout of an Arcion CSV body."""

    mode: CsvMode | None = None
    """CSV: the mode in which Replicant wrote the file; required. JSON: with `snapshot`, an insert with `exists` is a
    row of a snapshot, and an object that is not a message is a row of `table`."""
    columns: str | None = None
    """CSV: the column names in file order, separated by commas. Quote a name with a comma."""
    header: bool = False
    """CSV: the first record is a header."""

    @property
    def layout(self) -> CsvLayout:
        """Return the layout. Raises RejectedInput `bad_request` without a mode, or for names that cannot be read."""
        if self.mode is None:
            raise RejectedInput(Code.BAD_REQUEST, "a CSV body requires mode=snapshot or mode=realtime")
        columns = names_in(self.columns, "columns")
        dialect = self.dialect
        return CsvLayout(
            self.mode, columns, self.header, dialect.delimiter, dialect.quote, dialect.escape, dialect.null
        )


_CSV_NAMES: Final = frozenset(CsvParameters.model_fields)


@cached
def arcion_query(query: bytes) -> ChangeQuery:
    """Read the query of an Arcion body in JSON. Raises RejectedInput and FastAPI's RequestValidationError."""
    values = query_values(query, CHANGE_NAMES | {"override", "mode", "partition"}, only_csv=_CSV_NAMES - {"mode"})
    given = read_parameters(OverrideParameters, "query", values)
    is_snapshot = read_parameters(CsvParameters, "query", values).mode is CsvMode.SNAPSHOT
    reader_of = partial(
        ArcionJson,
        table=given_table(given),
        override=given.override,
        snapshot_rows=is_snapshot,
        partition=given.partition,
    )
    return ChangeQuery(given, reader_of)


@cached
def csv_query(query: bytes) -> ChangeQuery:
    """Read the query of an Arcion body in CSV. Raises what `arcion_query` raises."""
    values = query_values(query, CHANGE_NAMES | _CSV_NAMES | {"partition"})
    given = read_parameters(PartitionParameters, "query", values)
    if not given.table:
        raise RejectedInput(Code.BAD_REQUEST, "a CSV body requires the parameter `table`")
    layout = read_parameters(CsvParameters, "query", values).layout
    return ChangeQuery(
        given, partial(ArcionCsv, table=TableName.parse(given.table), layout=layout, partition=given.partition)
    )


class LoadParameters(Parameters):
    """Parameters of initial loads."""

    table: Annotated[str | None, REQUIRED_TABLE] = None


@cached
def load_query(query: bytes) -> TableName:
    """Return the table in the query of an Arrow stream. Raises what `arcion_query` raises."""
    given = read_parameters(LoadParameters, "query", query_values(query, frozenset(LoadParameters.model_fields)))
    if not given.table:
        raise RejectedInput(Code.BAD_REQUEST, "an Arrow stream requires the parameter `table`")
    return TableName.parse(given.table)


class DebeziumParameters(PartitionParameters):
    """Parameters of Debezium's events."""

    keyed: bool | None = None
    """True if every element is a Kafka record `{"key": …, "value": …}`. By default an element with exactly these two
    keys is one."""
    key_columns: str | None = None
    """The key columns, separated by commas, instead of those in the records' keys."""
    timestamps: Annotated[str | None, Field(examples=["created:millis,*:micros"])] = None
    """Events without a schema: what the integers of timestamp columns count since 1970, as `column:unit` pairs
    separated by commas. The units are `millis`, `micros` and `nanos`; `*` is every column that neither this parameter
    nor the table's option `columns` names."""
    decimals: DecimalForm = DecimalForm.TEXT
    """Events without a schema: whether strings of decimal columns are digits or Connect's base64."""
    tombstones: Tombstones | None = None
    """Meaning of a record without a value: `delete` deletes the row of its key. By default such records are ignored,
    and rejected among flattened rows without `__deleted` and alone in a request with `table`."""
    unavailable: str | None = None
    """Further placeholders of values that the connector could not read, separated by commas: its property
    `unavailable.value.placeholder`."""

    nanoseconds: Nanoseconds = Nanoseconds.REJECT
    """Treatment of timestamps with digits below a microsecond: the event is rejected, or they lose these digits."""

    @property
    def reading(self) -> DebeziumReading:
        """Return how the events are read. Raises RejectedInput `bad_request`."""
        return DebeziumReading(
            self.keyed,
            tuple(filter(None, names_in(self.key_columns, "key_columns"))),
            parse_units(names_in(self.timestamps, "timestamps")),
            self.decimals,
            self.tombstones,
            tuple(filter(None, names_in(self.unavailable, "unavailable"))),
            self.nanoseconds,
        )


_NAMES: Final = frozenset(DebeziumParameters.model_fields)


@cached
def debezium_query(query: bytes) -> ChangeQuery:
    """Read the query of a Debezium body. Raises what `arcion_query` raises."""
    given = read_parameters(DebeziumParameters, "query", query_values(query, _NAMES))
    reader_of = partial(DebeziumJson, table=given_table(given), reading=given.reading, partition=given.partition)
    return ChangeQuery(given, reader_of)


class ReplicateParameters(PartitionParameters):
    """Parameters of Replicate's messages."""

    keyed: bool | None = None
    """True if every element is `{"key": …, "value": …}`, a message with the key of its Kafka record. By default such
    elements are recognized."""
    layout: Annotated[str | None, Field(pattern="^[a-z0-9][a-z0-9_-]{0,63}$")] = None
    """The name of the layout that says where messages of a custom format have their parts."""
    schema_id: Annotated[str | None, Field(min_length=1, max_length=255)] = None
    """Avro: the schema id of a record without an envelope, whose metadata message had its `dataSchema`."""
    table_from: Annotated[str | None, Field(min_length=1, max_length=1_024)] = None
    """Location of the table's name in messages: `data.<column>`, which is data only if the table has the column, or a
    JSON Pointer into the message."""


_REPLICATE_NAMES: Final = frozenset(ReplicateParameters.model_fields)


@cached
def replicate_query(query: bytes) -> ChangeQuery:
    """Read the query of a Replicate body in JSON. Raises what `arcion_query` raises."""
    given = read_parameters(ReplicateParameters, "query", query_values(query, _REPLICATE_NAMES))
    if given.schema_id is not None:
        raise RejectedInput(Code.BAD_REQUEST, "schema_id is a parameter of bodies in Avro")
    return ChangeQuery(given, partial(ReplicateJson, **_reading(given)))


@cached
def replicate_avro_query(query: bytes) -> ChangeQuery:
    """Read the query of a Replicate body in Avro. Raises what `arcion_query` raises."""
    given = read_parameters(ReplicateParameters, "query", query_values(query, _REPLICATE_NAMES))
    return ChangeQuery(given, partial(ReplicateAvro, **_reading(given), schema_id=given.schema_id))


def _reading(given: ReplicateParameters) -> dict[str, Any]:
    form = MessageForm(given.keyed, None, TableFrom.parse(given.table_from) if given.table_from else None)
    return {"table": given_table(given), "partition": given.partition, "form": form, "layout": given.layout}


class RowsParameters(ChangeParameters):
    """Parameters of plain rows."""

    table: Annotated[str | None, REQUIRED_TABLE] = None
    op: RowOperation = RowOperation.UPSERT
    """The operation of every row that has none in `__op__`."""
    columns: Annotated[str | None, Field(examples=["id:int64,name:string!,total:decimal(12,2)"])] = None
    """Register the table with these columns, or add those that it lacks: `name:type`, separated by commas; `!` after
    the type forbids NULL. Requires the right `register`."""
    key_columns: Annotated[str | None, Field(examples=["id"])] = None
    """The key columns of the declared table, separated by commas. Required unless `op=insert`."""

    @property
    def required_table(self) -> TableName:
        """Return the table. Raises RejectedInput `bad_request` without one."""
        if not self.table:
            raise RejectedInput(Code.BAD_REQUEST, "plain rows require the parameter `table`")
        return TableName.parse(self.table)

    @property
    def declared(self) -> Declaration | None:
        """Return what `columns` declares. Raises RejectedInput `bad_request`, `bad_type` or `bad_schema`."""
        if self.columns is None:
            if self.key_columns is not None:
                detail = "`key_columns` needs `columns` with names and types, such as `id:int64,name:string`"
                raise RejectedInput(Code.BAD_REQUEST, f"{detail}; an Arrow stream has them, with `register=true`")
            return None
        self.check_keys()
        return parse_declaration(self.columns, self.key_columns)

    def check_keys(self) -> None:
        """Raise RejectedInput `bad_request` for a declared table without keys, unless its rows are inserts."""
        if self.key_columns is None and self.op is not RowOperation.INSERT:
            detail = "a declared table needs `key_columns`; only with op=insert can it have no key"
            raise RejectedInput(Code.BAD_REQUEST, detail)


class StreamParameters(Parameters):
    """Parameters of plain rows as an Arrow stream."""

    registers: Annotated[bool, Field(alias="register")] = False
    """Arrow: register the table with the columns of the stream, or add those that it lacks. Requires the right
    `register`."""


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """The valid query of an Arrow stream."""

    table: TableName
    rows: RowsOfStream
    dry_run: bool


_ROWS_NAMES: Final = frozenset(RowsParameters.model_fields)
_STREAM_NAMES: Final = frozenset({"register"})


@cached
def rows_query(query: bytes) -> ChangeQuery:
    """Read the query of plain rows in JSON. Raises what `arcion_query` raises."""
    values = query_values(query, _ROWS_NAMES | _STREAM_NAMES, only_csv=DIALECT_NAMES)
    _check_no_stream(values)
    given = read_parameters(RowsParameters, "query", values)
    table, declared = given.required_table, given.declared
    return ChangeQuery(given, partial(RowsJson, table=table, operation=given.op, declared=declared))


@cached
def rows_csv_query(query: bytes) -> ChangeQuery:
    """Read the query of plain rows in CSV. Raises what `arcion_query` raises."""
    values = query_values(query, _ROWS_NAMES | _STREAM_NAMES | DIALECT_NAMES)
    _check_no_stream(values)
    given = read_parameters(RowsParameters, "query", values)
    layout = RowsLayout(given.op, read_parameters(CsvDialectParameters, "query", values).dialect.checked())
    table, declared = given.required_table, given.declared
    return ChangeQuery(given, partial(RowsCsv, table=table, layout=layout, declared=declared))


def _check_no_stream(values: Mapping[str, str]) -> None:
    if not _STREAM_NAMES.isdisjoint(values):
        detail = "register is for Arrow streams: a row in JSON or CSV declares no types, so give `columns`"
        raise RejectedInput(Code.BAD_REQUEST, detail)


@cached
def rows_stream_query(query: bytes) -> StreamQuery:
    """Read the query of plain rows as an Arrow stream. Raises what `arcion_query` raises."""
    values = query_values(query, _ROWS_NAMES | _STREAM_NAMES)
    given = read_parameters(RowsParameters, "query", values)
    if given.keeps_rejected:
        raise RejectedInput(Code.BAD_REQUEST, "on_reject=dead_letter is for messages, and an Arrow stream has none")
    key_columns = None
    if read_parameters(StreamParameters, "query", values).registers:
        if given.columns is not None:
            raise RejectedInput(Code.BAD_REQUEST, "give either register=true or `columns`")
        given.check_keys()
        key_columns = parse_names(given.key_columns)
    declared = given.declared if key_columns is None else None
    return StreamQuery(given.required_table, RowsOfStream(given.op, declared, key_columns), given.dry_run)
