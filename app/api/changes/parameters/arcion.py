"""Query parameters of Arcion bodies, in JSON and in CSV."""

from functools import partial
from typing import Annotated, Final

from pydantic import Field

from app.api.changes.parameters.common import (
    CHANGE_NAMES,
    ChangeParameters,
    ChangeQuery,
    CsvDialectParameters,
    cached,
    given_table,
    names_in,
    query_values,
)
from app.api.server.request_parameters import read_parameters
from app.domain.model.names import TableName
from app.errors import Code, RejectedInput
from app.ingest import ArcionCsv, ArcionJson, CsvLayout, CsvMode


class OverrideParameters(ChangeParameters):
    """Parameters of Arcion's JSON."""

    override: Annotated[
        bool, Field(description="Apply every message to `table`, whatever table the message names.")
    ] = False


class CsvParameters(CsvDialectParameters):
    """Parameters that describe the layout of an Arcion CSV body."""

    mode: Annotated[
        CsvMode | None,
        Field(
            description="CSV: the mode in which Replicant wrote the file; required. JSON: with `snapshot`, an object "
            "that is no message is a row of `table`, as in NATIVE."
        ),
    ] = None
    columns: Annotated[
        str | None,
        Field(description="CSV: the column names in file order, separated by commas. Quote a name with a comma."),
    ] = None
    header: Annotated[bool, Field(description="CSV: the first record is a header.")] = False

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
    values = query_values(query, CHANGE_NAMES | {"override", "mode"}, only_csv=_CSV_NAMES - {"mode"})
    given = read_parameters(OverrideParameters, "query", values)
    is_snapshot = read_parameters(CsvParameters, "query", values).mode is CsvMode.SNAPSHOT
    if is_snapshot and not given.table:
        raise RejectedInput(Code.BAD_REQUEST, "mode=snapshot needs `table`, because a row does not name its table")
    reader_of = partial(ArcionJson, table=given_table(given), override=given.override, snapshot_rows=is_snapshot)
    return ChangeQuery(given, reader_of)


@cached
def csv_query(query: bytes) -> ChangeQuery:
    """Read the query of an Arcion body in CSV. Raises what `arcion_query` raises."""
    values = query_values(query, CHANGE_NAMES | _CSV_NAMES)
    given = read_parameters(ChangeParameters, "query", values)
    if not given.table:
        raise RejectedInput(Code.BAD_REQUEST, "a CSV body requires the parameter `table`")
    layout = read_parameters(CsvParameters, "query", values).layout
    return ChangeQuery(given, partial(ArcionCsv, table=TableName.parse(given.table), layout=layout))
