"""Alerts: what an operator is told of, when, and when it is told to be over. Pure rules, without input or output.

An alert is about one subject: a table, or a part of the gateway. It is told once it has lasted for some time, again
once another code has lasted for that time, and once more when it is over. What was never told ends without a word.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

MAX_TOLD: Final = 100
"""Alerts that one message lists; the others follow in the next one."""


class AlertKind(StrEnum):
    """What an alert is about."""

    PART = "part"
    TABLE_QUARANTINED = "table_quarantined"
    TABLE_FAILING = "table_failing"
    FABRIC_TABLE = "fabric_table"
    DEAD_LETTERS = "dead_letters"
    BACKLOG = "backlog"
    BACKLOG_FULL = "backlog_full"


class Severity(StrEnum):
    """`critical`: data has stopped or will soon. `warning`: it needs attention in working hours."""

    CRITICAL = "critical"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Alert:
    """What is wrong with one subject now. `detail` has no row value."""

    kind: AlertKind
    subject: str
    """The name of the table, or of the part as in `/statusz`."""
    severity: Severity
    code: str
    detail: str
    remedy: str

    @property
    def key(self) -> str:
        """Identify the alert among those of the gateway."""
        return f"{self.kind}:{self.subject}"


@dataclass(frozen=True, slots=True)
class KnownAlert:
    """An alert that an earlier look has found."""

    alert: Alert
    since: datetime
    code_since: datetime
    """When its present code was first seen."""
    told_code: str | None = None
    """The code with which it was last told; None if it was never told."""

    def is_due(self, now: datetime, lasting: timedelta) -> bool:
        """Tell whether it has lasted long enough to be told, or to be told again with another code."""
        begun = self.since if self.told_code is None else self.code_since
        return self.told_code != self.alert.code and now - begun >= lasting

    def seen(self, alert: Alert, now: datetime) -> "KnownAlert":
        """Return it with what a look has found of it now."""
        return replace(self, alert=alert, code_since=self.code_since if alert.code == self.alert.code else now)


@dataclass(frozen=True, slots=True)
class AlertPlan:
    """What follows from a look: what is known from now on, and what is told before it is stored as told."""

    begun: Sequence[KnownAlert]
    changed: Sequence[KnownAlert]
    """Known ones whose content is another now."""
    forgotten: Sequence[str]
    """Keys of those that ended and were never told."""
    firing: Sequence[KnownAlert]
    resolved: Sequence[KnownAlert]


def plan_alerts(
    known: Mapping[str, KnownAlert], found: Iterable[Alert], now: datetime, *, after_seconds: float
) -> AlertPlan:
    """Compare what is found now with what is known. An alert, or its other code, is told after `after_seconds`."""
    present = {alert.key: alert for alert in found}
    begun = [KnownAlert(alert, now, now) for key, alert in present.items() if key not in known]
    kept = [old.seen(present[key], now) for key, old in known.items() if key in present]
    changed = [new for new in kept if new.alert != known[new.alert.key].alert]
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


def _title(alert: Alert) -> str:
    return f"{alert.subject} ({alert.kind}, {alert.code})"
