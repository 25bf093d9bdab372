"""States of mirroring as Fabric reports them.

Source: the definitions `MirroringStatusResponse`, `TableMirroringStatusResponse` and `ErrorResponse` of Fabric's REST
API specification, version v1. States may be added to it at any time, so the raw text is kept.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

Whose = Literal["user", "system", "unknown"]


class DatabaseState(StrEnum):
    """State of a mirrored database. The portal has two that the API's specification lacks: with warning, and failed."""

    INITIALIZING = "initializing"
    INITIALIZED = "initialized"
    STARTING = "starting"
    RUNNING = "running"
    RUNNING_WITH_WARNING = "running_with_warning"
    STOPPING = "stopping"
    STOPPED = "stopped"
    PAUSED = "paused"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @property
    def is_running(self) -> bool:
        """Whether Fabric reads the landing zone."""
        return self in (DatabaseState.RUNNING, DatabaseState.RUNNING_WITH_WARNING)

    @property
    def is_passing(self) -> bool:
        """Whether Fabric leaves this state without help."""
        return self in (DatabaseState.INITIALIZING, DatabaseState.STARTING, DatabaseState.STOPPING)


class MirroringState(StrEnum):
    """State of one table in a mirrored database."""

    INITIALIZED = "initialized"
    SNAPSHOTTING = "snapshotting"
    REPLICATING = "replicating"
    RESEEDING = "reseeding"
    STOPPED = "stopped"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FabricFault:
    """What Fabric says is wrong, and who can correct it, as far as the answer shows that."""

    code: str
    message: str
    whose: Whose

    def __str__(self) -> str:
        return ": ".join(part for part in (self.code, self.message) if part)


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    """State of a mirrored database; `raw` is Fabric's own word for it."""

    state: DatabaseState
    raw: str
    error: FabricFault | None = None


_USER_CODES: Final = frozenset(
    {
        "schemamergefailure",
        "invalidrowmarker",
        "invalidmetadata",
        "landingzonefilenotfound",
        "mirroringdefinitionmissing",
        "pathnotfound",
    }
)
"""Codes that a publisher causes, although their names do not say so."""


def parse_state(raw: str) -> DatabaseState:
    """Return the state of Fabric's word for a database, however it is cased and spaced."""
    folded = "".join(letter for letter in raw.casefold() if letter.isalpha())
    return next((state for state in DatabaseState if state.replace("_", "") == folded), DatabaseState.UNKNOWN)


def has_failed(raw: str | None, *, has_error: bool) -> bool:
    """Return whether Fabric has given up a table with this word for its state."""
    folded = (raw or "").casefold()
    return folded == MirroringState.FAILED or (has_error and folded == MirroringState.STOPPED)


def parse_mirroring_state(raw: str | None, *, has_error: bool) -> MirroringState:
    """Return the state of Fabric's word for a table; a stopped table with an error has failed."""
    if has_failed(raw, has_error=has_error):
        return MirroringState.FAILED
    folded = (raw or "").casefold()
    return MirroringState(folded) if folded in set(MirroringState) else MirroringState.UNKNOWN


def whose_fault(kind: str, code: str) -> Whose:
    """Tell who can correct a fault: by Fabric's `errorType` where it is given, else by the words in the code."""
    for text in (kind.casefold(), code.casefold()):
        if text.startswith("user") or "usererror" in text or text in _USER_CODES:
            return "user"
        if text.startswith(("system", "internal")) or "systemerror" in text:
            return "system"
    return "unknown"
