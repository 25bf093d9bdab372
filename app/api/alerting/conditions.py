"""Turns what is known of the gateway into alerts."""

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Final

from app.domain.fabric.remedies import remedy_for
from app.domain.fabric.trouble import FabricTrouble
from app.domain.model.table import TableLife
from app.domain.preflight.alerts import Alert, AlertKind, Severity
from app.domain.preflight.judgements import BACKLOG_REMEDY, NEAR_LIMIT, PATIENT_PARTS, code_in, remedy_in
from app.domain.preflight.readiness import OK
from app.staging.overview.table_summaries import TableSummary

_PART_REMEDIES: Final[Mapping[str, str]] = {
    "drain": "Read the log of the drain, or start one with `mirrorgate drain`.",
    "mirror": "`mirrorgate status` names the tables.",
    "clock": "Synchronize the clocks of all machines.",
}
"""What to do about each part that alerts name. Those of tables have alerts of their own."""


def conditions(
    summaries: Sequence[TableSummary],
    parts: Mapping[str, str],
    fabric: FabricTrouble | None,
    shares: Mapping[TableLife, float],
    total_share: float,
) -> Iterator[Alert]:
    """Yield an alert for each trouble. `parts` are those of `/statusz`, `shares` backlogs as shares of their limits."""
    if fabric is not None:
        severity = Severity.CRITICAL if fabric.is_critical else Severity.WARNING
        yield Alert(AlertKind.PART, "fabric", severity, fabric.code, _sentence(fabric.detail), fabric.remedy)
    for part, remedy in _PART_REMEDIES.items():
        if (state := parts.get(part, OK)) != OK:
            severity = Severity.WARNING if part in PATIENT_PARTS else Severity.CRITICAL
            yield Alert(AlertKind.PART, part, severity, f"{part}_not_ok", _sentence(state), remedy)
    if total_share >= NEAR_LIMIT:
        yield from _backlog("all tables", total_share)
    for summary in summaries:
        yield from _of_table(summary)
        share = shares.get((summary.table_id, summary.generation), 0.0)
        if share >= NEAR_LIMIT:
            yield from _backlog(summary.name, share)


def _of_table(summary: TableSummary) -> Iterator[Alert]:
    name, critical, warning = summary.name, Severity.CRITICAL, Severity.WARNING
    if summary.state == "quarantined":
        reason = summary.state_reason or ""
        command = f"mirrorgate tables release {quote(name)} --generation {summary.generation} --reason …"
        remedy = f"{remedy_in(reason)} `{command}` releases it."
        code = code_in(reason) or "quarantined"
        yield Alert(AlertKind.TABLE_QUARANTINED, name, critical, code, _sentence(reason), remedy)
    if summary.failure_code is not None:
        detail = _sentence(summary.failure_detail or "")
        remedy = summary.failure_remedy or ""
        yield Alert(AlertKind.TABLE_FAILING, name, critical, summary.failure_code, detail, remedy)
    if summary.fabric_error is not None:
        detail, remedy = _sentence(summary.fabric_error), remedy_for(summary.fabric_whose or "unknown")
        yield Alert(AlertKind.FABRIC_TABLE, name, critical, "fabric_error", detail, remedy)
    if summary.waiting_letters:
        detail = "Rejected changes wait for a decision."
        remedy = f"Run `mirrorgate dead-letters list {quote(name)}`, then replay or discard them."
        yield Alert(AlertKind.DEAD_LETTERS, name, warning, "dead_letters_waiting", detail, remedy)


def _backlog(subject: str, share: float) -> Iterator[Alert]:
    """Yield that a backlog is near its limit, and beside it that it is full: a full one fills and empties by turns."""
    detail = f"The backlog has reached {NEAR_LIMIT:.0%} of its limit."
    yield Alert(AlertKind.BACKLOG, subject, Severity.WARNING, "backlog_near_limit", detail, BACKLOG_REMEDY)
    if share >= 1:
        detail = "The backlog is full, so its changes are rejected with 429 `backlog_full`."
        yield Alert(AlertKind.BACKLOG_FULL, subject, Severity.CRITICAL, "backlog_full", detail, BACKLOG_REMEDY)


def _sentence(text: str) -> str:
    return text if not text or text.endswith(".") else f"{text}."
