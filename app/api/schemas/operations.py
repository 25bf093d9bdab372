"""Shapes of what operators ask of tables, and of the events that it leaves."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from app.api.schemas.common import Model
from app.api.schemas.tables import RegisterTable
from app.domain.model.drop_plan import DropAction
from app.errors import Code


class RecreateTable(RegisterTable):
    """What the new generation begins with; what is left out stays as it is."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"options": {"reload": "upsert"}}]})


class RenameTable(Model):
    """The new name, `name` or `schema.name`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "tpch.country"}]})

    name: str
    """No table may have it yet."""


class ReleaseTable(Model):
    """Why the table may publish again: what was found and done. Kept with the table's events."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "The foreign file was moved away."}]})

    reason: Annotated[str, Field(min_length=1, max_length=1000)]
    """In words, for those who read the events later."""
    rewrite_marker: bool = False
    """For a damaged or lost `_gateway.json`: the drain writes it again where the ledger's files are in the folder,
    checked by size and digest. Otherwise the table stops again."""


class ReleaseTables(Model):
    """Which tables to release, and why."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"code": "landing_folder_lost", "reason": "The zone is mounted again."}]}
    )

    code: Code
    """The code with which the state's reason begins, such as `landing_folder_lost`."""
    reason: Annotated[str, Field(min_length=1, max_length=1000)]
    """In words, kept with the events of each table."""


class ReleasedTable(Model):
    """A table that was released."""

    table: str
    generation: int
    state_reason: str
    """Why it was quarantined."""


class ReleasedModel(Model):
    """The tables that were released just now."""

    released: list[ReleasedTable]


class EventModel(Model):
    """One act of an operator (`actor` is the id of a key) or of the drain."""

    id: int
    generation: int
    happened_at: datetime
    actor: str
    action: str
    completes: DropAction | None
    """The operation that the drain finished with this event, null for every other event. `generation` is then the
    generation that ended."""
    reason: str | None
    details: dict[str, Any]


class EventsModel(Model):
    """`next_after` is the `after` of the next page, null on the last."""

    events: list[EventModel]
    next_after: int | None
