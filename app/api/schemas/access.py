"""API keys, with their rights and limits, and the audit of who did what."""

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

from app.api.schemas.common import WHOLE_NUMBER, Model, Moment
from app.domain.access.rejections import AuditOutcome
from app.domain.access.rights import Right


class AuditEventModel(Model):
    """An operation that was done, or the calls that were rejected within one minute (`times` of them).

    `subject` is the id of a key, `oidc:<subject>` for a token, `drain`, or null for calls without a valid key.
    `action` names the operation, or the method and route of the rejected calls. `request_id` is the id of the operation
    or of the first call.
    """

    id: int
    """The number of the event, in the order of the audit."""

    happened_at: datetime
    """Time of the event; of rejected calls, the time of the last one."""

    request_id: str | None
    """The id of the request, or of the first rejected call; null if no request caused the event."""

    subject: str | None
    """The id of a key, `oidc:<subject>` for a token, or `drain`; null for calls without a valid key."""

    subject_name: str | None
    """The name of the key, also of a deleted one; null if it has none."""

    action: str
    """The operation, or the method and route of the rejected calls."""

    table: str | None
    """The table that the call named; null if it named none."""

    generation: int | None
    """The generation of the table; null if the call concerned none."""

    outcome: AuditOutcome
    """Outcome of the operation: done or rejected."""

    status: int | None
    """The HTTP status of the rejected calls; null for an operation."""

    code: str | None
    """The error code of a rejection; null for an operation that was done."""

    times: int
    """Number of calls in the event; more than 1 only for rejected calls."""

    reason: str | None
    """The reason that the operation gave; null without one."""

    details: dict[str, Any]
    """Facts of the operation by name, without row values."""


class AuditModel(Model):
    """A page of the audit. `next_after` is the `after` of the next page; null on the last page."""

    events: list[AuditEventModel]
    """The events, by id."""

    next_after: int | None
    """The `after` of the next page; null on the last page."""


MAX_OVERLAP_SECONDS: Final = 30 * 86_400

_NAME: Final = r"^[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$"
TablePattern = Annotated[str, Field(max_length=300, pattern=_NAME)]
KeyName = Annotated[str, Field(max_length=100, pattern=_NAME)]
"""A name without spaces at its ends."""

RequestRate = Annotated[float | None, Field(strict=True, ge=0.001, le=1_000_000, allow_inf_nan=False)]
ByteRate = Annotated[int, Field(strict=True, gt=0, le=2**53), WHOLE_NUMBER] | None


class CreateKey(Model):
    """The rights of a new key, and the patterns of tables that they apply to (`*`, `sales.*`, `orders`)."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "orders", "rights": ["ingest", "register"], "tables": ["sales.*"]}]}
    )

    name: KeyName | None = None
    """Name of the key for people; the audit and events show it beside the id."""

    rights: Annotated[list[Right], Field(min_length=1)]
    """Rights of the key."""

    tables: Annotated[list[TablePattern], Field(min_length=1)] = ["*"]
    """The tables that the rights apply to."""

    expires_at: Moment | None = None
    """Time at which the key expires, with a UTC offset. Without it the key never expires."""

    hmac: bool = False
    """True if the key also gets a signing secret, for senders that sign their bodies."""

    requests_per_second: RequestRate = None
    """Requests per second that an API process accepts from the key; by default the limit of the settings."""

    bytes_per_second: ByteRate = None
    """Body bytes per second, as sent; by default the limit of the settings."""


class UpdateKey(Model):
    """A new name, or new rate limits, of a key.

    What is absent remains as it is; null takes the name away, or restores the limit of the settings.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"requests_per_second": 50, "bytes_per_second": None}]})

    name: KeyName | None = None
    """Name of the key for people."""

    requests_per_second: RequestRate = None
    """Requests per second that an API process accepts from the key."""

    bytes_per_second: ByteRate = None
    """Body bytes per second, as sent."""


class KeyModel(Model):
    """A key without its secret.

    `former_secret_until` is when the secret before the last rotation expires; null if it is not valid.
    """

    id: str
    """The id of the key, which its secret contains."""

    name: str | None
    """Name of the key for people; null if it has none."""

    rights: list[Right]
    """Rights of the key."""

    tables: list[str]
    """The patterns of the tables that the rights apply to."""

    created_at: datetime
    """Time at which the key was created."""

    expires_at: datetime | None
    """Time at which the key expires; null if never."""

    last_used_at: datetime | None
    """Time at which the key was last used; null if it never was."""

    former_secret_until: datetime | None
    """Time at which the secret before the last rotation expires; null if it is not valid."""

    hmac: bool
    """True if the key has a signing secret."""

    requests_per_second: float | None
    """The limit of this key; null means the limit of the settings."""

    bytes_per_second: int | None
    """The limit of this key; null means the limit of the settings."""


class RotateKey(Model):
    """The overlap: for how many seconds the current secret remains valid next to the new one.

    With 0, only the new secret is valid from now on.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"overlap_seconds": 3_600}]})

    overlap_seconds: Annotated[int, Field(strict=True, ge=0, le=MAX_OVERLAP_SECONDS), WHOLE_NUMBER] = 86_400


class RotatedKeyModel(Model):
    """A key with its new secret. Only this answer contains `key`."""

    id: str
    """The id of the key, which does not change."""

    key: str
    """The new secret, shown only here."""

    rights: list[Right]
    """Rights of the key."""

    tables: list[str]
    """The patterns of the tables that the rights apply to."""

    expires_at: datetime | None
    """Time at which the key expires; null if never."""

    former_secret_until: datetime | None
    """Until when the former secret remains valid; null if it is not."""


class CreatedKeyModel(Model):
    """A new key. Only this answer contains `key` and `signing_secret`."""

    id: str
    """The id of the key."""

    name: str | None
    """Name of the key for people; null if it has none."""

    key: str
    """The secret, shown only here. Send it as `Authorization: Bearer <key>`."""

    signing_secret: str | None
    """Secret with which the sender signs bodies; null unless `hmac` was asked for."""

    rights: list[Right]
    """Rights of the key."""

    tables: list[str]
    """The patterns of the tables that the rights apply to."""

    expires_at: datetime | None
    """Time at which the key expires; null if never."""


class KeysModel(Model):
    """All keys but that of the setting `MIRRORGATE_ADMIN_KEY`, which has every right and is not in the database."""

    keys: list[KeyModel]
    """The keys, oldest first."""

    settings_key_id: str | None
    """The id of that key; null if the setting is not set."""
