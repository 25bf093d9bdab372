"""Parts of change requests of all formats besides the body: query parameters, the request's names, its fingerprint.

Most requests of a producer have the same few queries, so what a valid one means is cached. Rejections are not.

Two requests under one name are the same if their fingerprints are. A fingerprint covers method, path, query and
decompressed body, and the producer's position and the load session if they are given.
"""

import csv
import hashlib
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import Field
from starlette.datastructures import Headers, QueryParams

from app.api.auth.dependencies import bearer
from app.api.exchange import Exchange
from app.api.server.request_parameters import Parameters, check_query_names, openapi_parameters, read_parameters
from app.domain.loads import LoadId
from app.domain.model.names import TableName
from app.domain.model.request_identity import RequestIdentity
from app.ingest import BodyReader, CsvDialect
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
MAX_SEQUENCE: Final = 2**63 - 1


class IdentityHeaders(Parameters):
    """Either an idempotency key, or a producer with its number and perhaps its position, or none; and the load."""

    idempotency_key: Annotated[str | None, Field(alias="Idempotency-Key")] = None
    """The name of the request, up to 255 visible ASCII characters. A repeat gets the first answer."""
    producer: Annotated[str | None, Field(alias="Mirrorgate-Producer")] = None
    """The name of the producer that numbers its requests; it belongs to the caller's key."""
    producer_sequence: Annotated[int | None, Field(alias="Mirrorgate-Producer-Sequence", ge=1, le=MAX_SEQUENCE)] = None
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
    return read_parameters(IdentityHeaders, "header", Headers(scope=exchange.scope))


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
    reader_of: Callable[..., BodyReader]
    """Makes the reader of a body, with what the query says about it."""


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
    values: Mapping[str, str] = QueryParams(query) if query else {}
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
