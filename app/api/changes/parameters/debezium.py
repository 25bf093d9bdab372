"""Query parameters of Debezium's events."""

from functools import partial
from typing import Annotated, Final

from pydantic import Field

from app.api.changes.parameters.common import (
    ChangeParameters,
    ChangeQuery,
    cached,
    given_table,
    names_in,
    query_values,
)
from app.api.server.request_parameters import read_parameters
from app.ingest import DebeziumJson, DebeziumReading, DecimalForm, Nanoseconds, Tombstones, parse_units


class DebeziumParameters(ChangeParameters):
    """Parameters of Debezium's events."""

    keyed: Annotated[
        bool | None,
        Field(
            description='Whether every element is a Kafka record `{"key": …, "value": …}`. By default an element with '
            "exactly these two keys is one."
        ),
    ] = None
    key_columns: Annotated[
        str | None,
        Field(description="The key columns, separated by commas, instead of those in the records' keys."),
    ] = None
    timestamps: Annotated[
        str | None,
        Field(
            description="Events without a schema: what the integers of timestamp columns count since 1970, as "
            "`column:unit` pairs separated by commas. The units are `millis`, `micros` and `nanos`; `*` is every "
            "column that neither this parameter nor the table's option `columns` names.",
            examples=["created:millis,*:micros"],
        ),
    ] = None
    decimals: Annotated[
        DecimalForm,
        Field(description="Events without a schema: whether texts of decimal columns are digits or Connect's base64."),
    ] = DecimalForm.TEXT
    tombstones: Annotated[
        Tombstones | None,
        Field(
            description="Whether a record without a value deletes the row of its key. By default such records are "
            "ignored, and rejected among flattened rows without `__deleted` and alone in a request with `table`."
        ),
    ] = None
    unavailable: Annotated[
        str | None,
        Field(
            description="Further placeholders of values that the connector could not read, separated by commas: its "
            "property `unavailable.value.placeholder`."
        ),
    ] = None

    nanoseconds: Annotated[
        Nanoseconds,
        Field(description="Whether timestamps with digits below a microsecond are rejected, or lose these digits."),
    ] = Nanoseconds.REJECT

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
    return ChangeQuery(given, partial(DebeziumJson, table=given_table(given), reading=given.reading))
