"""Decides what is wrong, how bad it is, what to do, and when an operator is told. Nothing else judges the state.

`troubles` names what needs attention. `parts` says the same without names of tables, for probes that need no key.

An alert is about one subject: a table, or a part of the gateway. It is told once it has lasted for some time, again
once another code has lasted for that time, and once more when it is over. What was never told ends without a word.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from shlex import quote
from typing import Final, NamedTuple

from app.domain.fabric import FabricFacts, fabric_trouble, remedy_for
from app.domain.health.facts import GatewayFacts, HealthFacts, ProcessFacts, TableSummary
from app.domain.model.table import TableState
from app.domain.preflight import Outcome
from mirrorgate.errors.codes import Code
from mirrorgate.errors.site import with_addresses

OK: Final = "ok"

NEAR_LIMIT: Final = 0.8
"""The share of its limit from which a backlog needs attention."""

FAILURE_COUNTS_SECONDS: Final = 30.0
"""A failed transaction makes a process unready for at most this long: without requests, nothing else ends it."""

CLOCKS_APART: Final = 5.0
"""Seconds. Decisions use the database's clock only, so a smaller difference does not matter."""

SOURCE_LAG_SECONDS: Final = 3_600.0
"""Time from a commit in the source to its acceptance that needs attention."""

ALL_TABLES: Final = "all tables"
"""The subject of a backlog of all tables together."""

_UNKNOWN: Final = "unknown while the database is unavailable"


class Severity(StrEnum):
    """`critical`: data has stopped or will soon. `warning`: it needs attention in working hours."""

    CRITICAL = "critical"
    WARNING = "warning"


class TroubleKind(StrEnum):
    """The kind of a trouble, in the order in which troubles of one severity are shown."""

    PART = "part"
    FINDING = "finding"
    TABLE_QUARANTINED = "table_quarantined"
    TABLE_FAILING = "table_failing"
    NOT_STAGED = "not_staged"
    BACKLOG = "backlog"
    FABRIC_TABLE = "fabric_table"
    MIRROR = "mirror"
    CHANGES_MISSING = "changes_missing"
    DEAD_LETTERS = "dead_letters"
    SOURCE_LAG = "source_lag"
    TABLE_PAUSED = "table_paused"

    @property
    def label(self) -> str:
        """Return it in the words of lists."""
        return self.value.removeprefix("table_").replace("_", " ")


@dataclass(frozen=True, slots=True)
class Trouble:
    """A problem of one subject now. `detail` has no row value."""

    kind: TroubleKind
    subject: str
    """The name of the table, of the part as in `/statusz`, or of the check."""
    severity: Severity
    code: str
    detail: str
    remedy: str
    title: str = ""
    since: datetime | None = None

    @property
    def key(self) -> str:
        """Identify the trouble among those of the gateway."""
        return f"{self.kind}:{self.subject}"


_CRITICAL: Final = Severity.CRITICAL
_WARNING: Final = Severity.WARNING

_RULES: Final[Mapping[TroubleKind, tuple[Severity, str]]] = {
    TroubleKind.TABLE_QUARANTINED: (_CRITICAL, "Nothing is published until you release it"),
    TroubleKind.TABLE_FAILING: (_CRITICAL, "Publication fails"),
    TroubleKind.NOT_STAGED: (_CRITICAL, "Accepted rows are missing"),
    TroubleKind.BACKLOG: (_WARNING, "The backlog is nearly full"),
    TroubleKind.FABRIC_TABLE: (_CRITICAL, "Fabric cannot mirror the table"),
    TroubleKind.MIRROR: (_WARNING, "The Delta mirror waits"),
    TroubleKind.CHANGES_MISSING: (_CRITICAL, "Changes of the source are missing"),
    TroubleKind.SOURCE_LAG: (_WARNING, "Changes arrive late"),
    TroubleKind.DEAD_LETTERS: (_WARNING, "Rejected messages wait"),
    TroubleKind.TABLE_PAUSED: (_WARNING, "The table is paused"),
}
"""Severity of each trouble of a table, and its title."""


class _Part(NamedTuple):
    severity: Severity
    title: str
    remedy: str
    code: str


_PARTS: Final[Mapping[str, _Part]] = {
    "database": _Part(
        _CRITICAL,
        "Postgres does not answer",
        "Check that Postgres runs and that MIRRORGATE_DATABASE_URL reaches it.",
        Code.DATABASE_UNAVAILABLE,
    ),
    "writer": _Part(
        _CRITICAL,
        "Changes are not staged",
        "Read the API's log: Postgres does not commit, or is slow.",
        "writer_not_ok",
    ),
    "masks": _Part(
        _CRITICAL,
        "This API process has the wrong secret for hashed columns",
        "Set MIRRORGATE_MASK_SECRET to the same value for all API processes, and restart them.",
        "masks_not_ok",
    ),
    "drain": _Part(
        _CRITICAL,
        "Nothing is published",
        "Start a drain with `mirrorgate drain`, or read the log of the one that runs.",
        "drain_not_ok",
    ),
    "mirror": _Part(
        _WARNING,
        "The Delta mirror has stopped tables",
        "`mirrorgate status` names the tables, with the mirror's reports.",
        "mirror_not_ok",
    ),
    "clock": _Part(
        _WARNING,
        "Clocks disagree",
        "Synchronize the clocks of all machines, for example with chrony.",
        "clock_not_ok",
    ),
}
"""Parts of the gateway whose troubles count alone. `tables`, `backlog` and `fabric` count what other troubles name."""

_FABRIC_TITLES: Final[Mapping[str, str]] = {
    "fabric_paused": "Fabric has paused mirroring",
    "fabric_stopped": "Mirroring is stopped in Fabric",
    "fabric_failed": "Mirroring has failed in Fabric",
    "fabric_not_started": "Mirroring has not started in Fabric",
    "fabric_status_old": "Fabric has not answered for some time",
}
"""Titles of troubles of the mirrored database; any other code is a question that Fabric rejects."""

_FINDING_TITLES: Final = {
    Outcome.UNSAFE: "Postgres can lose acknowledged changes",
    Outcome.WARNING: "A disk is nearly full",
}
_BACKLOG_REMEDY: Final = "Check that the drain keeps up, and give it more executors."


def troubles(facts: HealthFacts) -> tuple[Trouble, ...]:
    """Return what needs attention: what stops data first, then by kind and table."""
    found = [
        *_of_parts(parts(facts)),
        *(database_troubles(facts.gateway.fabric) if facts.gateway is not None else ()),
        *_of_findings(facts),
        *_of_backlog(ALL_TABLES, facts.total_share, "All tables together have used"),
    ]
    for table in facts.tables:
        waited = f" The oldest batch has waited for {table.oldest_seconds:,.0f} s." if table.pending_rows else ""
        found += _of_table(table)
        found += _of_backlog(table.name, facts.shares.get(table.life, 0.0), "The table has used", waited)
    order = {kind: number for number, kind in enumerate(TroubleKind)}
    return tuple(sorted(found, key=lambda trouble: (trouble.severity, order[trouble.kind])))


def database_away() -> Trouble:
    """Return the trouble of an API process that cannot read Postgres."""
    return _of_part("database", "An API process cannot read Postgres.")


def database_troubles(fabric: FabricFacts | None) -> Iterator[Trouble]:
    """Yield what is wrong with the mirrored database in Fabric, if anything is."""
    found = fabric_trouble(fabric)
    if found is not None:
        title = _FABRIC_TITLES.get(found.code, "The state of the database in Fabric is unknown")
        severity = _CRITICAL if found.is_critical else _WARNING
        yield Trouble(TroubleKind.PART, "fabric", severity, found.code, _sentence(found.detail), found.remedy, title)


def code_in(reason: str | None) -> Code | None:
    """Return the error code that the reason of a quarantine begins with."""
    code, colon, _ = (reason or "").partition(":")
    return Code(code) if colon and code in Code._value2member_map_ else None


def parts(facts: HealthFacts) -> dict[str, str]:
    """Return `ok` or what is wrong for each part that the facts are about, without the name of a table."""
    found = {} if facts.process is None else process_parts(facts.process)
    if facts.gateway is not None:
        found |= _gateway_parts(facts.gateway)
    elif facts.process is not None:
        found |= dict.fromkeys(("drain", "tables", "fabric", "mirror", "clock"), _UNKNOWN)
    full = "a backlog is full: its changes are rejected with 429 `backlog_full`"
    return found | {"backlog": OK if facts.fullest_share < 1 else full}


def process_parts(facts: ProcessFacts) -> dict[str, str]:
    """Return the parts that decide whether an API process can accept changes."""
    return {"api": OK, "database": facts.database or OK, "writer": _writer(facts), "masks": facts.masks or OK}


def is_ready(parts: Mapping[str, str], was_ready: bool) -> bool:
    """Return true if an API process can accept changes.

    Another mask secret keeps a process from its first traffic, so that a wrong rollout ends. It takes no process out of
    traffic: tables without hashed columns are served, and all processes may lack the secret of one table.
    """
    return all(state == OK or (part == "masks" and was_ready) for part, state in parts.items())


def _of_parts(states: Mapping[str, str]) -> Iterator[Trouble]:
    for name, state in states.items():
        if name in _PARTS and state not in (OK, _UNKNOWN):
            yield _of_part(name, _sentence(state))


def _of_part(name: str, detail: str) -> Trouble:
    severity, title, remedy, code = _PARTS[name]
    return Trouble(TroubleKind.PART, name, severity, code, detail, remedy, title)


def _of_findings(facts: HealthFacts) -> Iterator[Trouble]:
    for finding in facts.findings:
        if finding.outcome is not Outcome.OK:
            yield Trouble(
                TroubleKind.FINDING,
                finding.check.replace("_", " "),
                _CRITICAL,
                finding.check,
                _sentence(finding.detail),
                finding.remedy or "",
                _FINDING_TITLES[finding.outcome],
            )


def _of_backlog(subject: str, share: float, who_has: str, waited: str = "") -> Iterator[Trouble]:
    """Yield that a backlog is near its limit or full: one trouble with two codes, because it fills and empties."""
    if share >= 1:
        detail = f"The backlog is full, so its changes are rejected with 429 `backlog_full`.{waited}"
        near = _trouble(TroubleKind.BACKLOG, subject, "backlog_full", detail, _BACKLOG_REMEDY)
        yield replace(near, severity=_CRITICAL, title="The backlog is full")
    elif share >= NEAR_LIMIT:
        detail = f"{who_has} {100 * share:.0f}\N{NO-BREAK SPACE}% of the backlog limit.{waited}"
        yield _trouble(TroubleKind.BACKLOG, subject, "backlog_near_limit", detail, _BACKLOG_REMEDY)


def _of_table(table: TableSummary) -> Iterator[Trouble]:
    name = table.name
    if table.state == TableState.QUARANTINED:
        code = code_in(detail := table.state_reason or "The table was stopped.")
        why = code.remedy if code else "Find out why."
        command = f"mirrorgate tables release {quote(name)} --generation {table.generation} --reason …"
        remedy = why if code is Code.LEDGER_BEHIND_ZONE else f"{why} `{command}` releases it."
        yield _trouble(TroubleKind.TABLE_QUARANTINED, name, code or "quarantined", detail, remedy, table.quarantined_at)
    if table.failure_code is not None:
        detail = f"{table.failure_code}: {table.failure_detail} ({table.failure_tries:,} tries in a row)"
        remedy, since = table.failure_remedy or "", table.failing_since
        yield _trouble(TroubleKind.TABLE_FAILING, name, table.failure_code, detail, remedy, since)
    if table.staged_rows is not None and table.staged_rows != table.accepted_rows:
        detail = f"{table.staged_rows:,} of {table.accepted_rows:,} accepted rows are staged."
        remedy = with_addresses(
            "Run `mirrorgate doctor`; if Postgres was restored from a backup, see docs/operate/backup.md."
        )
        yield _trouble(TroubleKind.NOT_STAGED, name, "rows_not_staged", detail, remedy)
    if table.fabric_error is not None:
        remedy = remedy_for(table.fabric_whose or "unknown")
        yield _trouble(TroubleKind.FABRIC_TABLE, name, "fabric_error", table.fabric_error, remedy)
    if table.mirror_code is not None:
        detail = f"{table.mirror_state} at file {table.mirror_file:,}: {table.mirror_code}: {table.mirror_detail}"
        yield _trouble(TroubleKind.MIRROR, name, table.mirror_code, detail, table.mirror_remedy)
    if table.missing_changes:
        detail = f"Arcion counted {table.missing_changes:,} more operations of the table than the gateway received."
        remedy = with_addresses(
            "Load the table again, completely or as a new generation. If the counts are not those of the table alone, "
            "set its option operation_counts=ignore."
        )
        yield _trouble(TroubleKind.CHANGES_MISSING, name, "changes_missing", detail, remedy)
    if table.source_lag_seconds is not None and table.source_lag_seconds > SOURCE_LAG_SECONDS:
        detail = f"The last change was accepted {table.source_lag_seconds:,.0f} s after its commit in the source."
        remedy = (
            "Find out whether the tool reads the log late or cannot send: `mirrorgate status --json` has both parts of "
            "the lag if the tool gives them."
        )
        yield _trouble(TroubleKind.SOURCE_LAG, name, "source_lag_high", detail, remedy)
    if table.waiting_letters:
        waiting = "1 rejected message waits" if table.waiting_letters == 1 else None
        detail = f"{waiting or f'{table.waiting_letters:,} rejected messages wait'} for a decision."
        command = f"mirrorgate dead-letters list {quote(name)}"
        remedy = f"Read why they were rejected (`{command}`), then correct and replay them, or discard them."
        yield _trouble(TroubleKind.DEAD_LETTERS, name, "dead_letters_waiting", detail, remedy, table.oldest_letter_at)
    if table.state == TableState.PAUSED:
        detail = f"{table.pending_rows:,} rows wait. An operator paused the table."
        remedy = "Resume it when the reason is gone; changes are accepted until the backlog is full."
        yield _trouble(TroubleKind.TABLE_PAUSED, name, "paused", detail, remedy)


def _trouble(
    kind: TroubleKind, subject: str, code: str, detail: str, remedy: str, since: datetime | None = None
) -> Trouble:
    severity, title = _RULES[kind]
    return Trouble(kind, subject, severity, code, detail, remedy, title, since)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!")) else ".")


def _gateway_parts(facts: GatewayFacts) -> dict[str, str]:
    return {
        "drain": _drain(facts),
        "tables": _tables(facts.tables),
        "fabric": _fabric(facts),
        "mirror": f"the Delta mirror cannot continue {facts.stopped_mirrors} tables" if facts.stopped_mirrors else OK,
        "clock": _clock(facts),
    }


def _writer(facts: ProcessFacts) -> str:
    failed, oldest = facts.writer_failed_seconds, facts.oldest_request_seconds
    if facts.writer_failure is not None and failed is not None and failed < FAILURE_COUNTS_SECONDS:
        return f"the last transaction failed {failed:.0f} s ago: {facts.writer_failure}"
    if oldest is not None and oldest > facts.oldest_request_limit:
        return f"the oldest request has waited for {oldest:.0f} s"
    return OK


def _drain(facts: GatewayFacts) -> str:
    if not facts.drains:
        return "no drain has a running lease. `mirrorgate up` restarts its drain; otherwise run `mirrorgate drain`"
    if facts.waiting_drains:
        remedy = Code(facts.waits_for).remedy if facts.waits_for in list(Code) else ""
        return f"{facts.waiting_drains} of {facts.drains} drains publish nothing: {facts.waits_for}. {remedy}".strip()
    return OK


def _tables(tables: Mapping[str, int]) -> str:
    stopped = {state: tables.get(state, 0) for state in ("quarantined", "failing")}
    wrong = [f"{number} {state}" for state, number in stopped.items() if number]
    return OK if not wrong else f"of {sum(tables.values())} tables, {' and '.join(wrong)}"


def _fabric(facts: GatewayFacts) -> str:
    """Return what is wrong, each with its remedy. Both faults can stop mirroring without any other sign."""
    trouble = fabric_trouble(facts.fabric)
    wrong = [f"{trouble.summary}. {trouble.remedy}"] if trouble is not None else []
    if facts.fabric_tables:
        tables = "1 table" if facts.fabric_tables == 1 else f"{facts.fabric_tables} tables"
        wrong.append(f"Fabric reports an error for {tables}. `mirrorgate status` names them with remedies.")
    return " ".join(wrong) or OK


def _clock(facts: GatewayFacts) -> str:
    wrong = []
    clocks = {"this process": facts.clock_behind_seconds, "a drain": facts.drain_clock_behind_seconds}
    for whose, behind in clocks.items():
        if abs(behind) > CLOCKS_APART:
            side = "behind" if behind > 0 else "ahead of"
            wrong.append(f"the clock of {whose} is {abs(behind):.0f} s {side} that of Postgres")
    if facts.future_batches:
        wrong.append("batches are from the future: the clock of Postgres was set back")
    return "; ".join(wrong) or OK


MAX_TOLD: Final = 100
"""Alerts that one message lists; the others follow in the next one."""


TOLD: Final = frozenset(
    {
        TroubleKind.PART,
        TroubleKind.TABLE_QUARANTINED,
        TroubleKind.TABLE_FAILING,
        TroubleKind.FABRIC_TABLE,
        TroubleKind.CHANGES_MISSING,
        TroubleKind.SOURCE_LAG,
        TroubleKind.DEAD_LETTERS,
        TroubleKind.BACKLOG,
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
        return self.told_code != self.alert.code and abs(now - begun) >= lasting  # a clock may have been set back

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
    due = [one for one in (*kept, *begun) if one.is_due(now, timedelta(seconds=after_seconds))]
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
    told = [(one, "firing") for one in plan.firing] + [(one, "resolved") for one in plan.resolved]
    return {
        "version": 1,
        "gateway": gateway,
        "sent_at": now.isoformat(),
        "text": "\n".join(lines),
        "alerts": [_entry(one, status) for one, status in told],
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
