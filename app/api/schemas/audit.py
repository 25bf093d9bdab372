"""Answers of the audit."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from app.api.schemas.common import Model


class Outcome(StrEnum):
    """The outcome of an audited operation or call."""

    DONE = "done"
    REJECTED = "rejected"


class AuditEventModel(Model):
    """An operation that was done, or the calls that were rejected within one minute (`times` of them).

    `subject` is the id of a key, `oidc:<subject>` for a token, `drain`, or null for calls without a valid key.
    `action` names the operation, or the method and route of the rejected calls. `request_id` is the id of the operation
    or of the first call.
    """

    id: int
    happened_at: datetime
    request_id: str | None
    subject: str | None
    subject_name: str | None
    """The name of the key, also of a deleted one; null if it has none."""

    action: str
    table: str | None
    generation: int | None
    outcome: Outcome
    status: int | None
    code: str | None
    times: int
    reason: str | None
    details: dict[str, Any]


class AuditModel(Model):
    """A page of the audit. `next_after` is the `after` of the next page; null on the last page."""

    events: list[AuditEventModel]
    next_after: int | None
