"""Arcion messages, described for generators of clients.

The models only describe: `app.formats` reads the messages, and checks more strictly. The JSON keys are Arcion's own;
keys that are not listed here are ignored.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeAliasType

_DESCRIBED: Final = ConfigDict(use_attribute_docstrings=True)

ArcionValue = TypeAliasType(
    "ArcionValue",
    Annotated[
        str | float | bool | None,
        Field(description="A string, as Replicant writes every value, or a JSON number or boolean. `null` is NULL."),
    ],
)
ArcionImage = TypeAliasType(
    "ArcionImage",
    Annotated[dict[str, ArcionValue], Field(description="The values of a row by column name.")],
)
ArcionFlag = TypeAliasType(
    "ArcionFlag",
    Annotated[
        Literal["0", "1", "2", "3"] | Literal[0, 1, 2, 3],
        Field(description="Which images contain the column: 0 none, 1 `after`, 2 `before`, 3 both."),
    ],
)


class ArcionNamespace(BaseModel):
    """The catalog and schema of a source table."""

    model_config = _DESCRIBED

    catalog: str | None = None
    """The schema of the table if `schema` is absent or `default_schema`."""

    source_schema: Annotated[str | None, Field(alias="schema")] = None
    """The schema of the table. `default_schema` counts as absent."""

    hash: int | None = None
    """Replicant's hash of the namespace; a wrong one is counted, not rejected."""


class ArcionTableName(BaseModel):
    """The source table that a message is for."""

    model_config = _DESCRIBED

    name: str
    """The table's own name."""

    namespace: ArcionNamespace | None = None
    """Null or absent: the table has no schema."""

    hash: int | None = None
    """Replicant's hash of the whole name; a wrong one is counted, not rejected."""


class ArcionMessage(BaseModel):
    """One row change in Arcion's internal format."""

    model_config = _DESCRIBED

    table_name: Annotated[ArcionTableName, Field(alias="tableName")]
    """The table that the change is for."""

    operation: Annotated[Literal["I", "U", "D", "R"], Field(alias="opType")]
    """Insert, update, delete, or replace (an upsert)."""

    before: ArcionImage | None = None
    """The row before the change; for an update or delete, at least its key."""

    after: ArcionImage | None = None
    """The row after the change; for an update, at least the new values."""

    exists: dict[str, ArcionFlag]
    """One entry per column of the images."""

    cursor: str | dict[str, Any] | None = None
    """The source position, stored unchanged."""

    operation_count: Annotated[str | dict[str, Any] | None, Field(alias="operationcount")] = None
    """Replicant's own counts; not used."""
