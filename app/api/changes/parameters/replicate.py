"""Query parameters of Replicate's messages."""

from functools import partial
from typing import Annotated, Final

from pydantic import Field

from app.api.changes.parameters.common import ChangeParameters, ChangeQuery, cached, given_table, query_values
from app.api.server.request_parameters import read_parameters
from app.domain.rows.source_order import MAX_PARTITION_CHARACTERS
from app.ingest import MessageForm, ReplicateJson, TableFrom


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
    keyed: Annotated[
        bool | None,
        Field(
            description='Whether every element is `{"key": …, "value": …}`, a message with the key of its Kafka '
            "record. By default such elements are recognized."
        ),
    ] = None
    layout: Annotated[
        str | None,
        Field(
            description="The name of the layout that says where messages of a custom format have their parts.",
            pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$",
        ),
    ] = None
    table_from: Annotated[
        str | None,
        Field(
            description="Where each message names its table: `data.<column>`, which is data only if the table has the "
            "column, or a JSON Pointer into the message.",
            min_length=1,
            max_length=1_024,
        ),
    ] = None


_NAMES: Final = frozenset(ReplicateParameters.model_fields)


@cached
def replicate_query(query: bytes) -> ChangeQuery:
    """Read the query of a Replicate body. Raises what `arcion_query` raises."""
    given = read_parameters(ReplicateParameters, "query", query_values(query, _NAMES))
    form = MessageForm(given.keyed, None, TableFrom.parse(given.table_from) if given.table_from else None)
    reader_of = partial(
        ReplicateJson, table=given_table(given), partition=given.partition, form=form, layout=given.layout
    )
    return ChangeQuery(given, reader_of)
