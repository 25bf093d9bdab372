"""Query parameters of every format of changes, and what reads a query.

Most requests of a producer have the same few queries, so what a valid one means is cached. Rejections are not.
"""

import csv
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Final, TypeVar

from pydantic import Field
from starlette.datastructures import QueryParams

from app.api.server.request_parameters import Parameters, check_query_names
from app.domain.model.names import TableName
from app.errors import Code, RejectedInput
from app.ingest import BodyReader, CsvDialect


class OnReject(StrEnum):
    """What happens to a request with a rejected message."""

    REJECT = "reject"
    DEAD_LETTER = "dead_letter"


REQUIRED_TABLE: Final = Field(
    description="The table of all rows.", examples=["tpch.nation"], json_schema_extra={"required": True}
)
"""The parameter `table` in the contract, where the messages name no table."""


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

    key_id: Annotated[
        str | None,
        Field(description="The id of the key that a signed request is signed with, if no header gives it."),
    ] = None

    @property
    def keeps_rejected(self) -> bool:
        """Return True if rejected messages become dead letters. Raises RejectedInput `bad_request` for a dry run."""
        if self.dry_run and self.on_reject is OnReject.DEAD_LETTER:
            raise RejectedInput(Code.BAD_REQUEST, "dry_run=true cannot be combined with on_reject=dead_letter")
        return self.on_reject is OnReject.DEAD_LETTER


class CsvDialectParameters(Parameters):
    """Parameters that say which characters separate and enclose the fields of a CSV body."""

    delimiter: Annotated[str, Field(description="CSV: the character between fields.")] = ","
    quote: Annotated[str, Field(description="CSV: the character around quoted fields.")] = '"'
    escape: Annotated[
        str | None,
        Field(description="CSV: the character before a quote inside a field; by default the quote character."),
    ] = None

    null: Annotated[
        str | None,
        Field(
            description="CSV: the only text without quotes that means NULL. By default it is `NULL`, and in plain rows "
            "the empty text too; an empty `null` is the empty text alone, as in CSV of Postgres's `COPY`."
        ),
    ] = None

    @property
    def dialect(self) -> CsvDialect:
        """Return the characters, and the text that means NULL."""
        return CsvDialect(self.delimiter, self.quote, self.escape or self.quote, self.null)


@dataclass(frozen=True, slots=True)
class ChangeQuery:
    """What a valid query asks for."""

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
