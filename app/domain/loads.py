"""Load sessions: a reload of a table beside its stream of changes (decision 0069).

The session begins at a batch sequence. A key that has a row image from this sequence on was *seen*: the load or the
stream wrote it since. Invariant: completing a full load deletes exactly the rows that were not seen, so it never
deletes a row that the stream wrote meanwhile.

`app.domain.rows.landing_rows` decides which rows land meanwhile. Commands import this module, so it imports no Arrow.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NewType

from app.domain.model.table import BatchSequence, Generation, TableId
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import LoadMode

LoadId = NewType("LoadId", str)
"""The UUID of a load session, as text."""


class LoadState(StrEnum):
    """The state of a load session. `completing` means that rows are being deleted, and that no more are taken."""

    OPEN = "open"
    COMPLETING = "completing"
    COMPLETED = "completed"
    ABORTED = "aborted"
    EXPIRED = "expired"

    @property
    def has_ended(self) -> bool:
        """True if nothing can be done with the session any more."""
        return self not in {LoadState.OPEN, LoadState.COMPLETING}


@dataclass(frozen=True, slots=True)
class LoadSession:
    """A load session at one moment."""

    load_id: LoadId
    table_id: TableId
    generation: Generation
    mode: LoadMode
    state: LoadState
    """Expired at its time, and aborted when its table is dropped or recreated, even if another state is stored."""
    begin_sequence: BatchSequence
    """The first batch sequence of the session."""
    batches: int
    """Batches that the load has staged."""
    rows: int
    """Rows of the load that were staged to land."""
    superseded: int
    """Rows of the load that do not land, because the stream changed their keys meanwhile."""
    deletes: int
    """Rows that completing it has deleted so far."""
    scanned_through: bytes | None
    """The last row key whose image completing it has looked at."""
    idle_seconds: float
    """The session expires this long after the last request with it."""
    started_by: str
    started_at: datetime
    expires_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class LoadStep:
    """The part that a request adds to a load session: rows, or the deletes of a part of the rows that were not seen."""

    load_id: LoadId
    removes: bool = False
    scanned_through: bytes | None = None
    """The last row key that was looked at for these deletes."""


def check_step(load: LoadSession | None, step: LoadStep, table_ids: Collection[TableId]) -> None:
    """Check that a request for these tables may take its step now.

    Raises RejectedInput `unknown_load`, `load_table_mismatch` or `load_ended`; nothing of the request is staged then.
    """
    if load is None:
        raise unknown_load(step.load_id)
    if any(table_id != load.table_id for table_id in table_ids):
        raise RejectedInput(Code.LOAD_TABLE_MISMATCH, f"load {load.load_id} is of another table")
    if load.state is not (LoadState.COMPLETING if step.removes else LoadState.OPEN):
        raise ended(load)


def is_repeated_completion(load: LoadSession) -> bool:
    """Return True if the load is completed already, so that a repeated request has nothing to do.

    Raises RejectedInput `load_ended` for a load that ended in another way.
    """
    if load.state in {LoadState.ABORTED, LoadState.EXPIRED}:
        raise ended(load)
    return load.state is LoadState.COMPLETED


def is_repeated_abort(load: LoadSession) -> bool:
    """Return True if the load was aborted or expired before. Raises RejectedInput `load_ended` if it is completed."""
    if load.state is LoadState.COMPLETED:
        raise ended(load)
    return load.state.has_ended


def unknown_load(load_id: LoadId) -> RejectedInput:
    """Return the rejection of a load that is not stored, or not of the table that a path names."""
    return RejectedInput(Code.UNKNOWN_LOAD, f"the table has no load {load_id}")


def ended(load: LoadSession) -> RejectedInput:
    """Return the rejection of a request that arrives too late for the load."""
    why = {
        LoadState.COMPLETING: "is being completed and accepts no more rows",
        LoadState.COMPLETED: "is completed",
        LoadState.ABORTED: "was aborted, or its table was dropped or recreated",
        LoadState.EXPIRED: f"expired, because no request used it for {load.idle_seconds / 3600:g} hours",
        LoadState.OPEN: "is not being completed",
    }
    return RejectedInput(Code.LOAD_ENDED, f"load {load.load_id} {why[load.state]}")
