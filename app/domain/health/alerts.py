"""Alerts: what an operator is told of, when, and when it is told to be over. Pure rules, without input or output.

An alert is about one subject: a table, or a part of the gateway. It is told once it has lasted for some time, again
once another code has lasted for that time, and once more when it is over. What was never told ends without a word.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from app.domain.health.troubles import Kind, Trouble

MAX_TOLD: Final = 100
"""Alerts that one message lists; the others follow in the next one."""


TOLD: Final = frozenset(
    {
        Kind.PART,
        Kind.TABLE_QUARANTINED,
        Kind.TABLE_FAILING,
        Kind.FABRIC_TABLE,
        Kind.CHANGES_MISSING,
        Kind.SOURCE_LAG,
        Kind.DEAD_LETTERS,
        Kind.BACKLOG,
    }
)
"""Troubles that the webhook is told; not a pause, which an operator has ordered."""


@dataclass(frozen=True, slots=True)
class KnownAlert:
    """A trouble that an earlier look has found."""

    alert: Trouble
    since: datetime
    code_since: datetime
    """Time at which its present code was first seen."""
    told_code: str | None = None
    """The code with which it was last told; None if it was never told."""

    def is_due(self, now: datetime, lasting: timedelta) -> bool:
        """Return True if it has lasted long enough to be sent, or to be sent again with another code."""
        begun = self.since if self.told_code is None else self.code_since
        return self.told_code != self.alert.code and now - begun >= lasting

    def seen(self, alert: Trouble, now: datetime) -> "KnownAlert":
        """Return it with the result of the last check."""
        return replace(self, alert=alert, code_since=self.code_since if alert.code == self.alert.code else now)


@dataclass(frozen=True, slots=True)
class AlertPlan:
    """The result of a check: the alerts known from now on, and those sent before it is stored as told."""

    begun: Sequence[KnownAlert]
    changed: Sequence[KnownAlert]
    """Known ones that have another code now. A string alone is not stored again: figures in it change at every look."""
    forgotten: Sequence[str]
    """Keys of those that ended and were never told."""
    firing: Sequence[KnownAlert]
    resolved: Sequence[KnownAlert]


def plan_alerts(
    known: Mapping[str, KnownAlert], found: Iterable[Trouble], now: datetime, *, after_seconds: float
) -> AlertPlan:
    """Compare what is found now with what is known. An alert, or its other code, is told after `after_seconds`."""
    present = {trouble.key: trouble for trouble in found if trouble.kind in TOLD}
    begun = [KnownAlert(alert, now, now) for key, alert in present.items() if key not in known]
    kept = [old.seen(present[key], now) for key, old in known.items() if key in present]
    changed = [new for new in kept if new.code_since == now]
    ended = [old for key, old in known.items() if key not in present]
    lasting = timedelta(seconds=after_seconds)
    due = [one for one in (*kept, *begun) if one.is_due(now, lasting)]
    by_weight = sorted(due, key=lambda one: (one.alert.severity, one.since, one.alert.key))
    return AlertPlan(
        begun=begun,
        changed=changed,
        forgotten=[old.alert.key for old in ended if old.told_code is None],
        firing=by_weight[:MAX_TOLD],
        resolved=[old for old in ended if old.told_code is not None][:MAX_TOLD],
    )


def message_of(plan: AlertPlan, *, gateway: str, now: datetime) -> dict[str, object]:
    """Return the JSON object that tells a plan's alerts; `text` says the same in words, for chat services."""
    lines = [
        f"{one.alert.severity.upper()}: {_title(one.alert)}. {one.alert.detail} {one.alert.remedy}".strip()
        for one in plan.firing
    ]
    lines += [f"RESOLVED: {_title(one.alert)}" for one in plan.resolved]
    return {
        "version": 1,
        "gateway": gateway,
        "sent_at": now.isoformat(),
        "text": "\n".join(lines),
        "alerts": [
            *(_entry(one, "firing") for one in plan.firing),
            *(_entry(one, "resolved") for one in plan.resolved),
        ],
    }


def _entry(known: KnownAlert, status: str) -> dict[str, str]:
    alert = known.alert
    return {
        "id": f"{alert.key}@{known.since.isoformat()}",
        "status": status,
        "kind": alert.kind,
        "subject": alert.subject,
        "severity": alert.severity,
        "code": alert.code,
        "detail": alert.detail,
        "remedy": alert.remedy,
        "since": known.since.isoformat(),
    }


def _title(alert: Trouble) -> str:
    return f"{alert.subject} ({alert.kind}, {alert.code})"
