"""Query parameters of the change endpoints, one model per format, and the headers that name a request.

Most requests of a producer have the same few queries, so what a valid one means is cached. Rejections are not.
"""

import csv
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Any, Final, TypeVar

from pydantic import Field
from starlette.datastructures import Headers, QueryParams

from app.api.auth.dependencies import bearer
from app.api.exchange import Exchange
from app.api.server.request_parameters import Parameters, check_query_names, openapi_parameters, read_parameters
from app.domain.model.names import TableName
from app.domain.model.request_identity import RequestIdentity, fingerprint
from app.domain.model.table_options import OptionValue
from app.domain.rows.source_order import MAX_PARTITION_CHARACTERS
from app.errors import Code, RejectedInput
from app.ingest import (
    BodyReader,
    CsvLayout,
    CsvMode,
    CsvSigns,
    RowOperation,
    RowsLayout,
    arcion_csv,
    arcion_json,
    replicate_json,
    rows_csv,
    rows_json,
)

_NAME: Final = re.compile(r"[\x21-\x7e]{1,255}")
MAX_SEQUENCE: Final = 2**63 - 1


class OnReject(OptionValue):
    """What happens to a request with a rejected message."""

    REJECT = "reject"
    DEAD_LETTER = "dead_letter"


class ChangeParameters(Parameters):
    """Parameters of every format."""

    table: Annotated[
        str | None,
        Field(description="The table of all messages; required if the messages do not name it."),
    ] = None
    dry_run: Annotated[
        bool,
        Field(description="Return the rows that would land, and stage nothing. Nothing is registered either."),
    ] = False

    on_reject: Annotated[
        OnReject,
        Field(
            description="`dead_letter`: keep rejected messages of tables with `dead_letters=accept`, and accept the "
            "other messages."
        ),
    ] = OnReject.REJECT

    @property
    def keeps_rejected(self) -> bool:
        """Return True if rejected messages become dead letters. Raises RejectedInput `bad_request` for a dry run."""
        if self.dry_run and self.on_reject is OnReject.DEAD_LETTER:
            raise RejectedInput(Code.BAD_REQUEST, "dry_run=true cannot be combined with on_reject=dead_letter")
        return self.on_reject is OnReject.DEAD_LETTER


class OverrideParameters(ChangeParameters):
    """Parameters of Arcion's JSON."""

    override: Annotated[
        bool, Field(description="Apply every message to `table`, whatever table the message names.")
    ] = False


class ReplicateParameters(ChangeParameters):
    """Parameters of Replicate's messages."""

    partition: Annotated[
        str | None,
        Field(
            description="The partition of the task's topic that holds all messages. Tables with "
            "`source_order=enforce` keep one position per partition.",
            min_length=1,
            max_length=MAX_PARTITION_CHARACTERS,
            pattern="^[!-~]+$",
        ),
    ] = None


class CsvSignParameters(Parameters):
    """Parameters that say which characters separate and enclose the fields of a CSV body."""

    delimiter: Annotated[str, Field(description="CSV: the character between fields.")] = ","
    quote: Annotated[str, Field(description="CSV: the character around quoted fields.")] = '"'
    escape: Annotated[
        str | None,
        Field(description="CSV: the character before a quote inside a field; by default the quote character."),
    ] = None

    @property
    def signs(self) -> CsvSigns:
        """Return the characters."""
        return CsvSigns(self.delimiter, self.quote, self.escape or self.quote)


class CsvParameters(CsvSignParameters):
    """Parameters that describe the layout of an Arcion CSV body."""

    mode: Annotated[CsvMode | None, Field(description="CSV: the mode in which Replicant wrote the file; required.")] = (
        None
    )
    columns: Annotated[
        str | None,
        Field(description="CSV: the column names in file order, separated by commas. Quote a name with a comma."),
    ] = None
    header: Annotated[bool, Field(description="CSV: the first record is a header.")] = False

    @property
    def layout(self) -> CsvLayout:
        """Return the layout. Raises RejectedInput `bad_request` without a mode."""
        if self.mode is None:
            raise RejectedInput(Code.BAD_REQUEST, "a CSV body requires mode=snapshot or mode=realtime")
        names = next(csv.reader([self.columns or ""], skipinitialspace=True), [])
        columns = tuple(name.strip() for name in names)
        signs = self.signs
        return CsvLayout(self.mode, columns, self.header, signs.delimiter, signs.quote, signs.escape)


class RowsParameters(ChangeParameters):
    """Parameters of plain rows."""

    op: Annotated[
        RowOperation,
        Field(description="The operation of every row that has none in `__op__`."),
    ] = RowOperation.UPSERT

    @property
    def required_table(self) -> TableName:
        """Return the table. Raises RejectedInput `bad_request` without one."""
        if not self.table:
            raise RejectedInput(Code.BAD_REQUEST, "plain rows require the parameter `table`")
        return TableName.parse(self.table)


class LoadParameters(Parameters):
    """Parameters of initial loads."""

    table: Annotated[str | None, Field(description="The table of the rows; required.")] = None


class IdentityHeaders(Parameters):
    """Either an idempotency key, or a producer with its number, or none of them."""

    idempotency_key: Annotated[
        str | None,
        Field(
            alias="Idempotency-Key",
            description="The name of the request, up to 255 visible ASCII characters. A repeat gets the first answer.",
        ),
    ] = None
    producer: Annotated[
        str | None,
        Field(
            alias="Mirrorgate-Producer",
            description="The name of the producer that numbers its requests; it belongs to the caller's key.",
        ),
    ] = None
    producer_sequence: Annotated[
        int | None,
        Field(
            alias="Mirrorgate-Producer-Sequence",
            ge=1,
            le=MAX_SEQUENCE,
            description="The number of the request: 1 for the first, then always one more.",
        ),
    ] = None

    def identity(self, exchange: Exchange, body: bytes) -> RequestIdentity | None:
        """Return the identity of this request, or None without these headers. `body` is the decompressed body.

        Raises RejectedInput `bad_request` for headers that contradict each other or are malformed.
        """
        key, producer, sequence = self.idempotency_key, self.producer, self.producer_sequence
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
        print_ = fingerprint(scope["method"], scope["path"], scope["query_string"].decode(), body)
        return RequestIdentity(exchange.subject or "", name, print_, sequence or 0)


@dataclass(frozen=True, slots=True)
class ChangeQuery:
    """What a valid query asks for."""

    given: ChangeParameters
    reader_of: Callable[..., BodyReader]
    """Makes the reader of a body, with what the query says about it."""


_NO_IDENTITY: Final = IdentityHeaders()
_NAMES: Final = frozenset(ChangeParameters.model_fields)
_REPLICATE_NAMES: Final = frozenset(ReplicateParameters.model_fields)
_CSV_NAMES: Final = frozenset(CsvParameters.model_fields)
_ROWS_NAMES: Final = frozenset(RowsParameters.model_fields)
_SIGN_NAMES: Final = frozenset(CsvSignParameters.model_fields)
_MAX_CACHED_QUERIES: Final = 1_000
_MAX_CACHED_BYTES: Final = 512
"""Bytes of a query that is cached: longer ones would let a caller fill the memory."""

_Meaning = TypeVar("_Meaning")


def _cached(read: Callable[[bytes], _Meaning]) -> Callable[[bytes], _Meaning]:
    """Cache what short queries mean. Exceptions are not cached."""
    cached = lru_cache(_MAX_CACHED_QUERIES)(read)
    return lambda query: cached(query) if len(query) <= _MAX_CACHED_BYTES else read(query)


@_cached
def arcion_query(query: bytes) -> ChangeQuery:
    """Read the query of an Arcion body in JSON. Raises RejectedInput and FastAPI's RequestValidationError."""
    values = _values(query, _NAMES | {"override"}, only_csv=_CSV_NAMES)
    given = read_parameters(OverrideParameters, "query", values)
    return ChangeQuery(given, partial(arcion_json, table=_table(given), override=given.override))


@_cached
def csv_query(query: bytes) -> ChangeQuery:
    """Read the query of an Arcion body in CSV. Raises what `arcion_query` raises."""
    values = _values(query, _NAMES | _CSV_NAMES)
    given = read_parameters(ChangeParameters, "query", values)
    if not given.table:
        raise RejectedInput(Code.BAD_REQUEST, "a CSV body requires the parameter `table`")
    layout = read_parameters(CsvParameters, "query", values).layout
    return ChangeQuery(given, partial(arcion_csv, table=TableName.parse(given.table), layout=layout))


@_cached
def replicate_query(query: bytes) -> ChangeQuery:
    """Read the query of a Replicate body. Raises what `arcion_query` raises."""
    given = read_parameters(ReplicateParameters, "query", _values(query, _REPLICATE_NAMES))
    return ChangeQuery(given, partial(replicate_json, table=_table(given), partition=given.partition))


@_cached
def rows_query(query: bytes) -> ChangeQuery:
    """Read the query of plain rows in JSON. Raises what `arcion_query` raises."""
    given = read_parameters(RowsParameters, "query", _values(query, _ROWS_NAMES, only_csv=_SIGN_NAMES))
    return ChangeQuery(given, partial(rows_json, table=given.required_table, operation=given.op))


@_cached
def rows_csv_query(query: bytes) -> ChangeQuery:
    """Read the query of plain rows in CSV. Raises what `arcion_query` raises."""
    values = _values(query, _ROWS_NAMES | _SIGN_NAMES)
    given = read_parameters(RowsParameters, "query", values)
    layout = RowsLayout(given.op, read_parameters(CsvSignParameters, "query", values).signs.checked())
    return ChangeQuery(given, partial(rows_csv, table=given.required_table, layout=layout))


@_cached
def load_query(query: bytes) -> TableName:
    """Return the table in the query of an Arrow stream. Raises what `arcion_query` raises."""
    given = read_parameters(LoadParameters, "query", _values(query, frozenset(LoadParameters.model_fields)))
    if not given.table:
        raise RejectedInput(Code.BAD_REQUEST, "an Arrow stream requires the parameter `table`")
    return TableName.parse(given.table)


def identity_headers(exchange: Exchange) -> IdentityHeaders:
    """Return the headers that name a request. Raises FastAPI's RequestValidationError."""
    if not exchange.head.has_identity:
        return _NO_IDENTITY
    return read_parameters(IdentityHeaders, "header", Headers(scope=exchange.scope))


def openapi_extra(body: Mapping[str, Any], *parameters: type[Parameters]) -> dict[str, Any]:
    """Return the part of a change route's contract that FastAPI cannot derive, because it reads none of the input."""
    described = [entry for model in parameters for entry in openapi_parameters(model, "query")]
    described += openapi_parameters(IdentityHeaders, "header")
    return {**body, "parameters": described, "security": [{bearer.scheme_name: []}]}


def _unquote(key: str) -> str:
    """Remove the quotes of the IETF draft's form; both forms name the same key."""
    return key[1:-1] if len(key) > 2 and key[0] == key[-1] == '"' else key


def _values(query: bytes, known: Set[str], *, only_csv: Set[str] = frozenset()) -> Mapping[str, str]:
    """Return the parameters of a query, all of them with known names."""
    values: Mapping[str, str] = QueryParams(query) if query else {}
    check_query_names(values, known, only_csv=only_csv)
    return values


def _table(given: ChangeParameters) -> TableName | None:
    return TableName.parse(given.table) if given.table else None
