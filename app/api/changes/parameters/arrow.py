"""Query parameters of Arrow streams."""

from typing import Annotated

from app.api.changes.parameters.common import REQUIRED_TABLE, cached, query_values
from app.api.server.request_parameters import Parameters, read_parameters
from app.domain.model.names import TableName
from app.errors import Code, RejectedInput


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
