"""API keys as they are asked for and shown."""

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field

from app.api.models import Model, Moment
from app.domain.access import Right

TablePattern = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f]+$")]


class CreateKey(Model):
    """Rights, and patterns of the tables they hold for (`*`, `sales.*`, `orders`)."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"rights": ["ingest", "register"], "tables": ["sales.*"]}]}
    )

    rights: Annotated[list[Right], Field(min_length=1)]
    """What the key may do."""

    tables: Annotated[list[TablePattern], Field(min_length=1)] = ["*"]
    """With which tables."""

    expires_at: Moment | None = None
    """Until when, with an offset; never ends without one."""


class KeyModel(Model):
    """A key, without its secret."""

    id: str
    rights: list[Right]
    tables: list[str]
    created_at: datetime
    expires_at: datetime | None


class CreatedKeyModel(Model):
    """A new key. `key` is shown this once."""

    id: str
    key: str
    rights: list[Right]
    tables: list[str]
    expires_at: datetime | None


class KeysModel(Model):
    """All keys."""

    keys: list[KeyModel]
