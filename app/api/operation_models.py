"""Shapes of what operators ask of tables, and of the events that it leaves."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from app.api.models import Model
from app.api.table_models import RegisterTable


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


class EventModel(Model):
    """One act of an operator (`actor` is the id of a key) or of the drain."""

    id: int
    generation: int
    happened_at: datetime
    actor: str
    action: str
    reason: str | None
    details: dict[str, Any]


class EventsModel(Model):
    """`next_after` is the `after` of the next page, null on the last."""

    events: list[EventModel]
    next_after: int | None
