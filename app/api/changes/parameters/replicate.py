"""Query parameters of Replicate's messages."""

from functools import partial
from typing import Annotated, Final

from pydantic import Field

from app.api.changes.parameters.common import ChangeParameters, ChangeQuery, cached, given_table, query_values
from app.api.server.request_parameters import read_parameters
from app.domain.rows.source_order import MAX_PARTITION_CHARACTERS
from app.ingest import replicate_json


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


_NAMES: Final = frozenset(ReplicateParameters.model_fields)


@cached
def replicate_query(query: bytes) -> ChangeQuery:
    """Read the query of a Replicate body. Raises what `arcion_query` raises."""
    given = read_parameters(ReplicateParameters, "query", query_values(query, _NAMES))
    return ChangeQuery(given, partial(replicate_json, table=given_table(given), partition=given.partition))
