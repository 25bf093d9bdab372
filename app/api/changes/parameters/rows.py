"""Query parameters of plain rows, in JSON and in CSV."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from pydantic import Field

from app.api.changes.parameters.common import (
    DIALECT_NAMES,
    REQUIRED_TABLE,
    ChangeParameters,
    ChangeQuery,
    CsvDialectParameters,
    cached,
    query_values,
)
from app.api.server.request_parameters import Parameters, read_parameters
from app.domain.model.names import TableName
from app.errors import Code, RejectedInput
from app.ingest import (
    Declaration,
    RowOperation,
    RowsCsv,
    RowsJson,
    RowsLayout,
    RowsOfStream,
    parse_declaration,
    parse_names,
)


class RowsParameters(ChangeParameters):
    """Parameters of plain rows."""

    table: Annotated[str | None, REQUIRED_TABLE] = None
    op: Annotated[
        RowOperation,
        Field(description="The operation of every row that has none in `__op__`."),
    ] = RowOperation.UPSERT
    columns: Annotated[
        str | None,
        Field(
            description="Register the table with these columns, or add those that it lacks: `name:type`, separated by "
            "commas; `!` after the type forbids NULL. Requires the right `register`.",
            examples=["id:int64,name:string!,total:decimal(12,2)"],
        ),
    ] = None
    key_columns: Annotated[
        str | None,
        Field(
            description="The key columns of the declared table, separated by commas. Required unless `op=insert`.",
            examples=["id"],
        ),
    ] = None

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
                raise RejectedInput(
                    Code.BAD_REQUEST, "key_columns needs `columns`, or register=true for an Arrow stream"
                )
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

    registers: Annotated[
        bool,
        Field(
            alias="register",
            description="Arrow: register the table with the columns of the stream, or add those that it lacks. "
            "Requires the right `register`.",
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """What a valid query asks for of an Arrow stream."""

    table: TableName
    rows: RowsOfStream
    dry_run: bool


_NAMES: Final = frozenset(RowsParameters.model_fields)
_STREAM_NAMES: Final = frozenset({"register"})


@cached
def rows_query(query: bytes) -> ChangeQuery:
    """Read the query of plain rows in JSON. Raises what `arcion_query` raises."""
    values = query_values(query, _NAMES | _STREAM_NAMES, only_csv=DIALECT_NAMES)
    _check_no_stream(values)
    given = read_parameters(RowsParameters, "query", values)
    table, declared = given.required_table, given.declared
    return ChangeQuery(given, partial(RowsJson, table=table, operation=given.op, declared=declared))


@cached
def rows_csv_query(query: bytes) -> ChangeQuery:
    """Read the query of plain rows in CSV. Raises what `arcion_query` raises."""
    values = query_values(query, _NAMES | _STREAM_NAMES | DIALECT_NAMES)
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
    values = query_values(query, _NAMES | _STREAM_NAMES)
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
