"""Load sessions: a reload of a table beside its stream of changes (decision 0069).

`load_mode` says what completing one deletes, `load_session` what a request may do with it in each state, and
`loaded_rows` which rows of a request land. Data passes from `app.ingest` to `app.staging.batches.load_transaction`,
which decides by these rules.

The mode of a load session: all that the options of commands need of loads.

A load session: a reload of one table that its stream of changes does not wait for.

The session begins at a batch sequence. A key that has a row image from this sequence on was *seen*: the load or the
stream wrote it since. Invariant: completing a full load deletes exactly the rows that were not seen, so it never
deletes a row that the stream wrote meanwhile.

Decides how rows land while a load session is open.

A row of the load lands if the stream has not changed its key since the load began. An insert of the load or of the
stream becomes an upsert if its key has a row: the source may have had the row when the load read it.
"""

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, NewType

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.table import BatchSequence, Generation, TableId
from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.row_image import ImageRows
from app.domain.rows.row_rules import RowMarker
from app.errors import Code, RejectedInput


class LoadMode(StrEnum):
    """What completing a load deletes: the rows that it did not have, or nothing."""

    FULL = "full"
    APPEND = "append"


LoadId = NewType("LoadId", str)
"""The UUID of a load session, as text."""


class LoadState(StrEnum):
    """How far a load session is. `completing` means that rows are being deleted, and that no more are taken."""

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
    """Expired at its time, and aborted when its table is dropped or recreated, whatever is stored."""
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
    """What a request adds to a load session: rows, or the deletes of a part of the rows that were not seen."""

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
    """Tell whether the load is completed already, so that a repeated request has nothing to do.

    Raises RejectedInput `load_ended` for a load that ended in another way.
    """
    if load.state in {LoadState.ABORTED, LoadState.EXPIRED}:
        raise ended(load)
    return load.state is LoadState.COMPLETED


def is_repeated_abort(load: LoadSession) -> bool:
    """Tell whether the load was aborted or expired before. Raises RejectedInput `load_ended` if it is completed."""
    if load.state is LoadState.COMPLETED:
        raise ended(load)
    return load.state.has_ended


def unknown_load(load_id: LoadId) -> RejectedInput:
    """Return the rejection of a load that is not stored, or not of the table that a path names."""
    return RejectedInput(Code.UNKNOWN_LOAD, f"the table has no load {load_id}")


def ended(load: LoadSession) -> RejectedInput:
    """Return the rejection of a request that comes too late for the load."""
    why = {
        LoadState.COMPLETING: "is being completed and takes no more rows",
        LoadState.COMPLETED: "is completed",
        LoadState.ABORTED: "was aborted, or its table was dropped or recreated",
        LoadState.EXPIRED: f"expired, because no request used it for {load.idle_seconds / 3600:g} hours",
        LoadState.OPEN: "is not being completed",
    }
    return RejectedInput(Code.LOAD_ENDED, f"load {load.load_id} {why[load.state]}")


_LOADABLE: Final = pa.array([RowMarker.INSERT, RowMarker.UPSERT], pa.int32())


def check_loadable(rows: LandingRows) -> ImageRows:
    """Return what the rows of a load mean for row images.

    Raises RejectedInput `load_takes_rows` if one updates or deletes a row, `no_row_images` if the table has stopped
    keeping row images.
    """
    if rows.images is None:
        raise RejectedInput(Code.NO_ROW_IMAGES, "the table keeps no row images any more")
    if rows.images.key_changes or not pc.all(pc.is_in(rows.batch.column(-1), _LOADABLE)).as_py():
        raise RejectedInput(Code.LOAD_TAKES_ROWS, "a change of the request updates or deletes a row")
    return rows.images


def without_keys(rows: LandingRows, images: ImageRows, keys: Set[bytes]) -> LandingRows:
    """Return the rows of other keys in their order; `images` are those of the rows, which change no keys."""
    if keys.isdisjoint(images.keys):
        return rows
    kept = [row for row, key in enumerate(images.keys) if key not in keys]
    places = {old: new for new, old in enumerate(kept)}
    return replace(
        rows,
        batch=rows.batch.take(pa.array(kept, pa.int64())),
        changes=len(kept),
        images=ImageRows(
            [images.keys[row] for row in kept],
            [images.images[row] for row in kept],
            {places[row]: entry for row, entry in images.incomplete.items() if row in places},
            [places[row] for row in images.inserts if row in places],
        ),
    )


def insert_keys(rows: LandingRows) -> Sequence[bytes]:
    """Return the keys of the rows that are inserts, none if the table keeps no row images."""
    return [] if rows.images is None else [rows.images.keys[row] for row in _inserts(rows)]


def with_inserts(rows: LandingRows) -> LandingRows:
    """Return the rows, each insert of which lands as an upsert if its key has a row."""
    if rows.images is None or not (inserts := _inserts(rows)):
        return rows
    return replace(rows, images=replace(rows.images, inserts=inserts))


def has_repeats(keys: Sequence[bytes]) -> bool:
    """Tell whether two rows have the same key."""
    return len({*keys}) < len(keys)


def _inserts(rows: LandingRows) -> Sequence[int]:
    found: list[int] = pc.indices_nonzero(pc.equal(rows.batch.column(-1), int(RowMarker.INSERT))).to_pylist()
    return found
