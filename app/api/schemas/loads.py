"""Load sessions: the request that begins one, and their status."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import ConfigDict, Field

from app.api.schemas.common import Model
from app.domain.loads.load_mode import LoadMode
from app.domain.loads.load_session import LoadSession, LoadState


class BeginLoad(Model):
    """What the load is: all rows of the source, or more rows."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"mode": "full"}]})

    mode: LoadMode
    """`full`: completing the load deletes the rows that it did not have. `append`: nothing is deleted."""
    load: Annotated[UUID | None, Field(examples=["5b7c2a52-1f0f-4c5e-9d43-0f5a3a1f6d2e"])] = None
    """An id of your own. A repeated request with it returns the load that the first one began."""


class LoadModel(Model):
    """A load session of a table."""

    load: str
    """The id, which requests send as `Mirrorgate-Load`."""
    table: str
    generation: int
    mode: LoadMode
    state: LoadState
    """`open` takes rows. `completing` deletes rows that the load did not have. The other states are final."""
    rows: int
    """Rows of the load that land."""
    superseded: int
    """Rows that do not land, because the stream changed or deleted their keys since the load began."""
    deletes: int
    """Rows that completing the load has deleted so far."""
    started_by: str
    """The id of the key that began the load."""
    started_at: datetime
    expires_at: datetime
    """When the load expires; each request with rows of it moves this time."""
    ended_at: datetime | None

    @classmethod
    def of_session(cls, load: LoadSession, table: str) -> "LoadModel":
        """Return the model of a load session."""
        return cls.of(load, load=load.load_id, table=table)


class LoadsModel(Model):
    """The newest load sessions of a table, the newest first."""

    loads: list[LoadModel]
