"""What needs attention first: each trouble with what is wrong, why, what to do, and where.

Troubles that stop data come first. Many tables with the same trouble become one entry, so that the list stays short.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from urllib.parse import quote

from app.console import text
from app.domain.fabric.remedies import remedy_for
from app.domain.fabric.trouble import FabricTrouble
from app.domain.model.table import TableLife
from app.domain.preflight.finding import Finding, Outcome
from app.domain.preflight.judgements import BACKLOG_REMEDY, NEAR_LIMIT, PATIENT_PARTS, remedy_in
from app.domain.preflight.readiness import OK
from app.staging.overview.table_summaries import TableSummary

MAX_EACH: Final = 5
"""Tables with the same trouble that are named; the others are counted."""

_MAX_WHY: Final = 400

Severity = Literal["bad", "warn"]


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that needs attention."""

    severity: Severity
    chip: str
    title: str
    why: str
    remedy: str
    link: str | None = None
    since: datetime | None = None


_PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "database": ("Postgres does not answer", "Check that Postgres runs and that MIRRORGATE_DATABASE_URL reaches it."),
    "writer": ("Changes are not staged", "Read the API's log; Postgres does not commit, or takes long."),
    "masks": (
        "This API process has the wrong secret for hashed columns",
        "Set MIRRORGATE_MASK_SECRET to the same value for all API processes, and start them again.",
    ),
    "drain": ("Nothing is published", "Start a drain with `mirrorgate drain`, or read the log of the one that runs."),
    "mirror": ("The Delta mirror has stopped tables", "Open the tables, and read what the mirror reports."),
    "clock": ("Clocks disagree", "Synchronize the clocks of all machines, for example with chrony."),
}
"""Title and remedy for each part of the gateway that is not named by a table."""


def troubles(
    summaries: Sequence[TableSummary],
    parts: Mapping[str, str],
    fabric: FabricTrouble | None,
    shares: Mapping[TableLife, float],
    total_share: float,
    findings: Iterable[Finding],
) -> tuple[Trouble, ...]:
    """Return what needs attention, what stops data first.

    `parts` are those of `/statusz`, `fabric` is that of the mirrored database, `shares` the backlogs as shares of their
    limits, and `findings` are those about the machine and Postgres.
    """
    found = [
        *_of_parts(parts),
        *of_database(fabric),
        *_of_findings(findings),
        *_shortened(_quarantined(summaries), "quarantined", "quarantined"),
        *_shortened(_failing(summaries), "failing", "failing"),
        *_backlogs(summaries, shares, total_share),
        *_shortened(_fabric(summaries), "Fabric error", "fabric-error"),
        *_shortened(_letters(summaries), "dead letters", "dead-letters", "/console/dead-letters"),
        *_paused(summaries),
    ]
    return tuple(sorted(found, key=lambda trouble: trouble.severity != "bad"))


def _of_parts(parts: Mapping[str, str]) -> Iterator[Trouble]:
    for name, state in parts.items():
        if state != OK and name in _PARTS:
            title, remedy = _PARTS[name]
            severity: Severity = "warn" if name in PATIENT_PARTS else "bad"
            yield Trouble(severity, name, title, _sentence(state), remedy, "/console/doctor")


_FABRIC_TITLES: Final[Mapping[str, str]] = {
    "fabric_paused": "Fabric has paused mirroring",
    "fabric_stopped": "Mirroring is stopped in Fabric",
    "fabric_failed": "Mirroring has failed in Fabric",
    "fabric_not_started": "Mirroring has not started in Fabric",
    "fabric_status_old": "Fabric has not answered for some time",
}
"""Titles of troubles of the mirrored database; any other code is a question that Fabric rejects."""


def of_database(fabric: FabricTrouble | None) -> Iterator[Trouble]:
    """Yield what is wrong with the mirrored database in Fabric, if anything is."""
    if fabric is not None:
        severity: Severity = "bad" if fabric.is_critical else "warn"
        title = _FABRIC_TITLES.get(fabric.code, "The state of the database in Fabric is unknown")
        yield Trouble(severity, "fabric", title, _sentence(fabric.detail), fabric.remedy)


def _of_findings(findings: Iterable[Finding]) -> Iterator[Trouble]:
    for finding in findings:
        if finding.outcome is not Outcome.OK:
            is_unsafe = finding.outcome is Outcome.UNSAFE
            title = "Postgres can lose acknowledged changes" if is_unsafe else "A disk is nearly full"
            yield Trouble(
                "bad" if is_unsafe else "warn",
                finding.check.replace("_", " "),
                title,
                _sentence(finding.detail),
                finding.remedy or "",
                "/console/doctor",
            )


def _quarantined(summaries: Sequence[TableSummary]) -> list[Trouble]:
    return [
        Trouble(
            "bad",
            "quarantined",
            summary.name,
            summary.state_reason or "The table was stopped.",
            remedy_in(summary.state_reason),
            address(summary.name),
            since=summary.quarantined_at,
        )
        for summary in summaries
        if summary.state == "quarantined"
    ]


def _failing(summaries: Sequence[TableSummary]) -> list[Trouble]:
    return [
        Trouble(
            "bad",
            "failing",
            summary.name,
            f"{summary.failure_code}: {summary.failure_detail} ({summary.failure_tries} tries in a row)"[:_MAX_WHY],
            summary.failure_remedy or "",
            address(summary.name),
            since=summary.failing_since,
        )
        for summary in summaries
        if summary.failure_code is not None
    ]


def _backlogs(summaries: Sequence[TableSummary], shares: Mapping[TableLife, float], total: float) -> Iterator[Trouble]:
    if total >= NEAR_LIMIT:
        why = f"All tables together have {text.percent(total)} of what may wait."
        yield Trouble(_full(total), "backlog", "The backlog of all tables is nearly full", why, BACKLOG_REMEDY)
    near = [
        Trouble(
            _full(share),
            "backlog",
            summary.name,
            f"{text.percent(share)} of the limit of its backlog; the oldest batch has waited for "
            f"{text.duration(summary.oldest_seconds)}.",
            BACKLOG_REMEDY,
            address(summary.name),
        )
        for summary in summaries
        if (share := shares.get((summary.table_id, summary.generation), 0.0)) >= NEAR_LIMIT
    ]
    yield from _shortened(near, "backlog", "lagging")


def _fabric(summaries: Sequence[TableSummary]) -> list[Trouble]:
    return [
        Trouble(
            "bad",
            "Fabric error",
            summary.name,
            summary.fabric_error[:_MAX_WHY],
            remedy_for(summary.fabric_whose or "unknown"),
            address(summary.name),
        )
        for summary in summaries
        if summary.fabric_error
    ]


def _letters(summaries: Sequence[TableSummary]) -> list[Trouble]:
    with_letters = sorted(
        (summary for summary in summaries if summary.waiting_letters), key=lambda g: -g.waiting_letters
    )
    return [
        Trouble(
            "warn",
            "dead letters",
            summary.name,
            f"{text.count(summary.waiting_letters)} rejected messages wait.",
            "Read why they were rejected, then correct and replay them, or discard them.",
            f"/console/dead-letters?table={quote(summary.name, safe='')}",
            since=summary.oldest_letter_at,
        )
        for summary in with_letters
    ]


def _paused(summaries: Sequence[TableSummary]) -> Iterator[Trouble]:
    paused = [summary for summary in summaries if summary.state == "paused"]
    if paused:
        names = ", ".join(summary.name for summary in paused[:MAX_EACH])
        more = f" and {len(paused) - MAX_EACH} more" if len(paused) > MAX_EACH else ""
        waiting = sum(summary.pending_rows for summary in paused)
        yield Trouble(
            "warn",
            "paused",
            text.amount(len(paused), "paused table"),
            f"{names}{more}: {text.amount(waiting, 'row')} {'waits' if waiting == 1 else 'wait'}. "
            f"An operator paused {'it' if len(paused) == 1 else 'them'}.",
            f"Resume {'it' if len(paused) == 1 else 'them'} when the reason is gone; changes are accepted until the "
            "backlog is full.",
            "/console/tables?state=paused",
        )


def _shortened(found: Sequence[Trouble], chip: str, state: str, path: str | None = None) -> Iterator[Trouble]:
    """Yield the first troubles of a kind, and one that counts the others."""
    yield from found[:MAX_EACH]
    if len(found) > MAX_EACH:
        more = found[MAX_EACH:]
        names = ", ".join(trouble.title for trouble in more[:MAX_EACH])
        yield Trouble(
            more[0].severity,
            chip,
            f"{len(more)} more tables",
            f"{names}{', …' if len(more) > MAX_EACH else ''}",
            "Start with those above; the cause is often the same.",
            path or f"/console/tables?state={state}",
        )


def address(table: str) -> str:
    """Return the path of a table's page."""
    return f"/console/tables/{quote(table, safe='')}"


def _full(share: float) -> Severity:
    return "bad" if share >= 1 else "warn"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:_MAX_WHY] + ("" if text.endswith((".", "!")) else ".")
