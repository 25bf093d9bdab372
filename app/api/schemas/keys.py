"""API keys as they are asked for and shown."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import ConfigDict, Field

from app.api.schemas.common import WHOLE_NUMBER, Model, Moment
from app.domain.access.rights import Right

MOST_OVERLAP_SECONDS: Final = 30 * 86_400

TablePattern = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f]+$")]


RequestRate = Annotated[float | None, Field(strict=True, ge=0.001, le=1_000_000, allow_inf_nan=False)]
ByteRate = Annotated[int, Field(strict=True, gt=0, le=2**53), WHOLE_NUMBER] | None


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

    requests_per_second: RequestRate = None
    """How many requests a second an API process takes of the key; without it, what the settings say."""

    bytes_per_second: ByteRate = None
    """How many bytes of bodies a second, as sent; without it, what the settings say."""


class UpdateKey(Model):
    """Other rate limits of a key: what is not given stays, null gives the limit of the settings."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"requests_per_second": 50, "bytes_per_second": None}]})

    requests_per_second: RequestRate = None
    """How many requests a second an API process takes of the key."""

    bytes_per_second: ByteRate = None
    """How many bytes of bodies a second, as sent."""


class KeyModel(Model):
    """A key, without its secret. `former_secret_until` is when its former secret stops working, null where it has."""

    id: str
    rights: list[Right]
    tables: list[str]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    former_secret_until: datetime | None
    requests_per_second: float | None
    """The key's own limit; null: what the settings say."""

    bytes_per_second: int | None
    """The key's own limit; null: what the settings say."""


class RotateKey(Model):
    """For how many seconds the present secret goes on working beside the new one; 0: from now on only the new one."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"overlap_seconds": 3_600}]})

    overlap_seconds: Annotated[int, Field(strict=True, ge=0, le=MOST_OVERLAP_SECONDS), WHOLE_NUMBER] = 86_400


class RotatedKeyModel(Model):
    """The key with its new secret. `key` is shown this once."""

    id: str
    key: str
    rights: list[Right]
    tables: list[str]
    expires_at: datetime | None
    former_secret_until: datetime | None


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
