"""The audit as it is shown."""

from datetime import datetime
from typing import Any

from app.api.schemas.common import Model
from app.domain.model.table_options import OptionValue


class Outcome(OptionValue):
    """What became of what an event tells."""

    DONE = "done"
    REJECTED = "rejected"


class AuditEventModel(Model):
    """An act that was done, or calls that were rejected within one minute, `times` of them.

    `subject` is the id of a key, `oidc:<subject>` for a token, `drain`, or null for calls without a valid key.
    `action` names an act, or the method and route of rejected calls; `request_id` is that of the act or the first call.
    """

    id: int
    happened_at: datetime
    request_id: str | None
    subject: str | None
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
    """`next_after` is the `after` of the next page, null on the last."""

    events: list[AuditEventModel]
    next_after: int | None
