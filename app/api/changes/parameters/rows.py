"""Query parameters of plain rows, in JSON and in CSV."""

from functools import partial
from typing import Annotated, Final

from pydantic import Field

from app.api.changes.parameters.common import (
    SIGN_NAMES,
    ChangeParameters,
    ChangeQuery,
    CsvSignParameters,
    cached,
    query_values,
)
from app.api.server.request_parameters import read_parameters
from app.domain.model.names import TableName
from app.errors import Code, RejectedInput
from app.ingest import RowOperation, RowsLayout, rows_csv, rows_json


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


_NAMES: Final = frozenset(RowsParameters.model_fields)


@cached
def rows_query(query: bytes) -> ChangeQuery:
    """Read the query of plain rows in JSON. Raises what `arcion_query` raises."""
    given = read_parameters(RowsParameters, "query", query_values(query, _NAMES, only_csv=SIGN_NAMES))
    return ChangeQuery(given, partial(rows_json, table=given.required_table, operation=given.op))


@cached
def rows_csv_query(query: bytes) -> ChangeQuery:
    """Read the query of plain rows in CSV. Raises what `arcion_query` raises."""
    values = query_values(query, _NAMES | SIGN_NAMES)
    given = read_parameters(RowsParameters, "query", values)
    layout = RowsLayout(given.op, read_parameters(CsvSignParameters, "query", values).signs.checked())
    return ChangeQuery(given, partial(rows_csv, table=given.required_table, layout=layout))
