"""Judges what is stored of Fabric's API: whether Fabric reads the landing zone, and what to do if it does not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from app.domain.fabric.remedies import STATES
from app.domain.fabric.states import DatabaseState, parse_state
from app.errors import Code

MAX_STATUS_AGE_SECONDS: Final = 900.0
"""A status that is older says nothing about the present. The alert for Prometheus has the same limit."""

_PASSING_CODES: Final = (Code.FABRIC_THROTTLED, Code.FABRIC_UNAVAILABLE)
"""Codes of questions that fail for a while without a fault of anybody here."""

_CODES: Final[Mapping[DatabaseState, str]] = {
    DatabaseState.PAUSED: "fabric_paused",
    DatabaseState.STOPPED: "fabric_stopped",
    DatabaseState.FAILED: "fabric_failed",
    DatabaseState.INITIALIZED: "fabric_not_started",
    DatabaseState.UNKNOWN: "fabric_state_unknown",
}
"""States that Fabric does not leave by itself, and in which it does not read the landing zone."""

_WARNINGS: Final = ("fabric_not_started", "fabric_state_unknown")
_HOW_TO_ASK: Final = (
    "Check that a drain runs and reaches MIRRORGATE_FABRIC_API; `fabric_poll_failed` in its log has the reason. "
    "`mirrorgate fabric doctor` finds the step that fails."
)


@dataclass(frozen=True, slots=True)
class FabricFacts:
    """What Postgres has of the mirrored database. `answer_seconds` is by the clock of Postgres."""

    state: str | None
    """Fabric's own word; None before the first answer."""
    error: str | None
    answer_seconds: float
    """Age of the last answer, or since the first question without one."""
    problem_code: str | None
    """Why the last question failed; None if it was answered."""
    problem_detail: str | None
    problem_remedy: str | None


@dataclass(frozen=True, slots=True)
class FabricTrouble:
    """Why mirroring needs an operator, apart from single tables."""

    code: str
    detail: str
    remedy: str
    is_critical: bool
    summary: str
    """The detail without Fabric's own texts, which can have names: for callers without a key."""


def fabric_trouble(facts: FabricFacts | None) -> FabricTrouble | None:
    """Return what is wrong with the mirrored database; None if nothing is, or if no drain asks.

    A fault of the question comes before the state, which is then old. A service that is throttled or away for some
    minutes is no fault.
    """
    if facts is None:
        return None
    if facts.problem_code is not None and facts.problem_code not in _PASSING_CODES:
        is_away = facts.problem_code == Code.FABRIC_NOT_FOUND
        summary = f"Fabric's API rejects questions about the mirrored database: {facts.problem_code}"
        detail = facts.problem_detail or summary
        return FabricTrouble(facts.problem_code, detail, facts.problem_remedy or "", is_away, summary)
    if facts.answer_seconds > MAX_STATUS_AGE_SECONDS:
        why = f" ({facts.problem_detail})" if facts.problem_detail else ""
        summary = f"no answer of Fabric's API for {facts.answer_seconds / 60:.0f} minutes"
        return FabricTrouble("fabric_status_old", f"{summary}{why}", _HOW_TO_ASK, is_critical=False, summary=summary)
    return None if facts.state is None else _of_state(facts.state, facts.error)


def _of_state(raw: str, error: str | None) -> FabricTrouble | None:
    state = parse_state(raw)
    if (code := _CODES.get(state)) is None:
        return None
    known = STATES[state]
    summary = f"the mirrored database is {raw or 'in no state'}: {known.meaning}"
    detail = f"{summary} ({error})" if error else summary
    return FabricTrouble(code, detail, known.remedy or "", code not in _WARNINGS, summary)
