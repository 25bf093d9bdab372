"""API keys as they are asked for and shown."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.api.models import Model
from app.domain.access import Right

TablePattern = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f]+$")]


class CreateKey(Model):
    """Rights, and patterns of the tables they hold for (`*`, `sales.*`, `orders`)."""

    rights: Annotated[list[Right], Field(min_length=1)]
    tables: Annotated[list[TablePattern], Field(min_length=1)] = ["*"]
    expires_at: datetime | None = None


class KeyModel(Model):
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
    keys: list[KeyModel]
