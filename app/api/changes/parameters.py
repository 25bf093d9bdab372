"""Parts of change requests besides the body: query parameters, the request's names, its fingerprint.

`cached` keeps what a valid query means, because most requests of a producer have the same few queries. Rejections are
not cached.

`fingerprint` covers method, path, query and decompressed body, and the producer's position and the load session if they
are given. Two requests under one name are the same if their fingerprints are.
"""

import csv
import hashlib
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache, partial
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import Field
from starlette.datastructures import Headers, QueryParams

from app.api.auth.dependencies import bearer
from app.api.exchange import Exchange
from app.api.schemas.common import MAX_ID, WHOLE_NUMBER
from app.api.server.request_parameters import (
    Parameters,
    check_query_names,
    openapi_parameters,
    read_headers,
    read_parameters,
)
from app.domain.loads import LoadId
from app.domain.model.change import InputLimits
from app.domain.model.names import TableName
from app.domain.model.request_identity import RequestIdentity
from app.domain.rows.source_order import MAX_PARTITION_CHARACTERS
from app.ingest import (
    ArcionCsv,
    ArcionJson,
    ArrowLoad,
    BodyReader,
    CsvDialect,
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

_CONTENT: Final = AESGCM(bytes(16))
"""Its tag tells bodies apart that differ by mistake, at an eighth of SHA-256's time. A caller could
make two bodies with one tag on purpose, and would only mislead himself: names belong to one caller."""

_NONCE: Final = bytes(12)


def fingerprint(
    method: str, path: str, query: str, body: bytes, position: str | None = None, load_id: str | None = None
) -> bytes:
    """Return 32 bytes that depend on all parts of a request that count.

    A position precedes the method. No method has a blank, so no request without a position has the same bytes.
    """
    head = f"{method}\n{path}\n{query}\n"
    if load_id is not None:
        head += f"load {load_id}\n"
    if position is not None:
        tag = _CONTENT.encrypt(_NONCE, b"", body)
        return hashlib.sha256(f"position {position}\n{head}".encode() + tag).digest()
    digest = hashlib.sha256(head.encode())
    digest.update(body)
    return digest.digest()


_NAME: Final = re.compile(r"[\x21-\x7e]{1,255}")
_POSITION: Final = "^[!-~]([ -~]*[!-~])?$"


class IdentityHeaders(Parameters):
    """Either an idempotency key, or a producer with its number and perhaps its position, or none; and the load."""

    idempotency_key: Annotated[str | None, Field(alias="Idempotency-Key")] = None
    """The name of the request, up to 255 visible ASCII characters. A repeat gets the first answer."""
    producer: Annotated[str | None, Field(alias="Mirrorgate-Producer")] = None
    """The name of the producer that numbers its requests; it belongs to the caller's key."""
    producer_sequence: Annotated[
        int | None, Field(alias="Mirrorgate-Producer-Sequence", ge=1, le=MAX_ID), WHOLE_NUMBER
    ] = None
    """The number of the request: 1 for the first, then always one more."""
    producer_position: Annotated[
        str | None, Field(alias="Mirrorgate-Producer-Position", min_length=1, max_length=256, pattern=_POSITION)
    ] = None
    """Position of the request in the producer's source, in the producer's words: visible ASCII characters, with blanks
    only between them. It is stored with the data."""

    load: Annotated[UUID | None, Field(alias="Mirrorgate-Load")] = None
    """The id of the load session that the rows belong to."""

    @property
    def load_id(self) -> LoadId | None:
        """The load session of the request, None for a change of the stream."""
        return None if self.load is None else LoadId(str(self.load))

    def check_stages_all(self, *, dry_run: bool, keeps_rejected: bool) -> None:
        """Raise RejectedInput `bad_request` if rows of a load would not all be staged: it would delete the others."""
        if self.load is not None and (dry_run or keeps_rejected):
            detail = "Mirrorgate-Load cannot be combined with dry_run=true or on_reject=dead_letter"
            raise RejectedInput(Code.BAD_REQUEST, detail)

    def identity(self, exchange: Exchange, body: bytes) -> RequestIdentity | None:
        """Return the identity of this request, or None without these headers. `body` is the decompressed body.

        Raises RejectedInput `bad_request` for headers that contradict each other or are malformed.
        """
        key, producer, sequence = self.idempotency_key, self.producer, self.producer_sequence
        position = self.producer_position
        if position is not None and producer is None:
            detail = "Mirrorgate-Producer-Position requires Mirrorgate-Producer and Mirrorgate-Producer-Sequence"
            raise RejectedInput(Code.BAD_REQUEST, detail)
        if key is None and producer is None and sequence is None:
            return None
        if (producer is None) != (sequence is None):
            detail = "Mirrorgate-Producer and Mirrorgate-Producer-Sequence must be sent together"
            raise RejectedInput(Code.BAD_REQUEST, detail)
        if key is not None and producer is not None:
            raise RejectedInput(Code.BAD_REQUEST, "send an Idempotency-Key or a producer's number, not both")
        name = producer if key is None else _unquote(key)
        if name is None or not _NAME.fullmatch(name):
            detail = "an Idempotency-Key or Mirrorgate-Producer must have 1 to 255 visible ASCII characters"
            raise RejectedInput(Code.BAD_REQUEST, detail)
        scope = exchange.scope
        print_ = fingerprint(
            scope["method"], scope["path"], scope["query_string"].decode(), body, position, self.load_id
        )
        return RequestIdentity(exchange.subject or "", name, print_, sequence or 0, position)


_NO_IDENTITY: Final = IdentityHeaders()


def identity_headers(exchange: Exchange) -> IdentityHeaders:
    """Return the headers that name a request. Raises FastAPI's RequestValidationError."""
    if not exchange.head.has_identity:
        return _NO_IDENTITY
    return read_headers(IdentityHeaders, Headers(scope=exchange.scope))


def openapi_extra(body: Mapping[str, Any], *parameters: type[Parameters]) -> dict[str, Any]:
    """Return the part of a change route's contract that FastAPI cannot derive, because it reads none of the input."""
    described = [entry for model in parameters for entry in openapi_parameters(model, "query")]
    described += openapi_parameters(IdentityHeaders, "header")
    return {**body, "parameters": described, "security": [{bearer.scheme_name: []}, {"signature": []}]}


def _unquote(key: str) -> str:
    """Remove the quotes of the IETF draft's form; both forms name the same key."""
    return key[1:-1] if len(key) > 2 and key[0] == key[-1] == '"' else key


class OnReject(StrEnum):
    """The treatment of a request with a rejected message."""

    REJECT = "reject"
    DEAD_LETTER = "dead_letter"


REQUIRED_TABLE: Final = Field(
    description="The table of all rows.", examples=["tpch.nation"], json_schema_extra={"required": True}
)
"""The parameter `table` in the contract, where the messages name no table."""


class ChangeParameters(Parameters):
    """Parameters of every format."""

    table: str | None = None
    """The table of all messages; required if the messages do not name it."""
    dry_run: bool = False
    """Return the rows that would land, and stage nothing. Nothing is registered either."""

    on_reject: OnReject = OnReject.REJECT
    """`dead_letter`: keep rejected messages of tables with `dead_letters=accept`, and accept the other messages."""

    key_id: str | None = None
    """The id of the key that a signed request is signed with, if no header gives it."""

    @property
    def keeps_rejected(self) -> bool:
        """Return True if rejected messages become dead letters. Raises RejectedInput `bad_request` for a dry run."""
        if self.dry_run and self.on_reject is OnReject.DEAD_LETTER:
            raise RejectedInput(Code.BAD_REQUEST, "dry_run=true cannot be combined with on_reject=dead_letter")
        return self.on_reject is OnReject.DEAD_LETTER


class CsvDialectParameters(Parameters):
    """Parameters that say which characters separate and enclose the fields of a CSV body."""

    delimiter: str = ","
    """CSV: the character between fields."""
    quote: str = '"'
    """CSV: the character around quoted fields."""
    escape: str | None = None
    """CSV: the character before a quote inside a field; by default the quote character."""

    null: str | None = None
    """CSV: the only string without quotes that means NULL. The default is `NULL`, in plain rows also the empty string;
    an empty `null` is the empty string alone, as in CSV of Postgres's `COPY`."""

    @property
    def dialect(self) -> CsvDialect:
        """Return the characters, and the text that means NULL."""
        return CsvDialect(self.delimiter, self.quote, self.escape or self.quote, self.null)


@dataclass(frozen=True, slots=True)
class ChangeQuery:
    """The parsed form of a valid query."""

    given: ChangeParameters
    reader_of: Callable[..., BodyReader | ArrowLoad]
    """Makes the reader of a body, with what the query says about it."""

    def reader(self, body: bytes, limits: InputLimits) -> BodyReader | ArrowLoad:
        """Return the reader of a body, which keeps rejected messages if the query says so."""
        return self.reader_of(body, limits=limits, **({"keep_rejected": True} if self.given.keeps_rejected else {}))


CHANGE_NAMES: Final = frozenset(ChangeParameters.model_fields)
DIALECT_NAMES: Final = frozenset(CsvDialectParameters.model_fields)
_MAX_CACHED_QUERIES: Final = 1_000
_MAX_CACHED_BYTES: Final = 512
"""Bytes of a query that is cached: longer ones would let a caller fill the memory."""

_Meaning = TypeVar("_Meaning")


def cached(read: Callable[[bytes], _Meaning]) -> Callable[[bytes], _Meaning]:
    """Cache what short queries mean. Exceptions are not cached."""
    meanings = lru_cache(_MAX_CACHED_QUERIES)(read)
    return lambda query: meanings(query) if len(query) <= _MAX_CACHED_BYTES else read(query)


def query_values(query: bytes, known: Set[str], *, only_csv: Set[str] = frozenset()) -> Mapping[str, str]:
    """Return the parameters of a query, all of them with known names."""
    values = QueryParams(query)
    check_query_names(values, known, only_csv=only_csv)
    return values


def names_in(text: str | None, parameter: str) -> tuple[str, ...]:
    """Return names that commas separate; one with a comma is in quotes. Raises RejectedInput `bad_request`."""
    try:
        names = next(csv.reader([text or ""], skipinitialspace=True), [])
    except csv.Error:
        detail = f"{parameter} must be names that commas separate, without line breaks between them"
        raise RejectedInput(Code.BAD_REQUEST, detail) from None
    return tuple(name.strip() for name in names)


def given_table(given: ChangeParameters) -> TableName | None:
    """Return the table in the parameters, if there is one."""
    return TableName.parse(given.table) if given.table else None


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
def load_query(query: bytes) -> ChangeQuery:
    """Read the query of an initial load. Raises what `arcion_query` raises."""
    given = read_parameters(LoadParameters, "query", query_values(query, frozenset(LoadParameters.model_fields)))
    if not given.table:
        raise RejectedInput(Code.BAD_REQUEST, "an Arrow stream requires the parameter `table`")
    return ChangeQuery(ChangeParameters(), partial(ArrowLoad, TableName.parse(given.table)))


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
def rows_stream_query(query: bytes) -> ChangeQuery:
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
    rows = RowsOfStream(given.op, declared, key_columns)
    return ChangeQuery(given, partial(ArrowLoad, given.required_table, rows=rows))
