"""Requests for operations on tables, and the events that they leave."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from app.api.schemas.common import Model
from app.api.schemas.tables import RegisterTable
from app.domain.model.drop_plan import DropAction
from app.errors import Code


class RecreateTable(RegisterTable):
    """The columns, keys and options of the new generation. What is left out stays as it is."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"options": {"reload": "upsert"}}]})


class RenameTable(Model):
    """The new name, `name` or `schema.name`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "tpch.country"}]})

    name: str
    """A name that no table has."""


class ReleaseTable(Model):
    """Why the table can publish again: what was found and done."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "The foreign file was moved away."}]})

    reason: Annotated[str, Field(min_length=1, max_length=1000)]
    """The reason, kept with the table's events."""
    rewrite_marker: bool = False
    """Write a damaged or lost `_gateway.json` again.

    The drain does so only if the files of the ledger are in the folder, checked by size and digest. Otherwise the table
    is quarantined again."""


class ReleaseTables(Model):
    """Which tables to release, and why."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"code": "landing_folder_lost", "reason": "The zone is mounted again."}]}
    )

    code: Code
    """The error code at the start of the state's reason, such as `landing_folder_lost`."""
    reason: Annotated[str, Field(min_length=1, max_length=1000)]
    """The reason, kept with the events of each table."""


class ReleasedTable(Model):
    """A table that was released."""

    table: str
    generation: int
    state_reason: str
    """Why it was quarantined."""


class ReleasedModel(Model):
    """The tables that this request released."""

    released: list[ReleasedTable]


class EventModel(Model):
    """One operation of an administrator (`actor` is the id of the key) or of the drain."""

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
    """A page of events. `next_after` is the `after` of the next page; null on the last page."""

    events: list[EventModel]
    next_after: int | None
