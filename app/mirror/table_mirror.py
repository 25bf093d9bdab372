"""Apply the next landing files of one table to its Delta table: one commit at a time, in the order of their numbers.

Invariant: a commit contains files that follow the position without a gap, and moves the position behind them. A process
that dies anywhere neither repeats nor skips a file.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError

from app.domain.mirror.table_report import TableReport
from app.errors import InvariantBroken
from app.landing.zone import LandingZone, PathKind
from app.mirror.commit import commit_effect, create_table
from app.mirror.delta_columns import grown
from app.mirror.fold import Effect, fold
from app.mirror.generations import fingerprint, move_aside
from app.mirror.landed_batch import LandedBatch, read_batch
from app.mirror.object_store.store_errors import is_store_error, store_error
from app.mirror.position import Position
from app.mirror.reporting import dropped, report_of, stopped
from app.mirror.table_view import TableView, is_same_folder, view_table
from app.mirror.target import MirrorTarget
from app.published.data_file import read_schema, without_marker
from app.published.table_files import DataFile
from app.published.table_folders import PublishedTable

FILES: Final = "mirrorgate.files"
GENERATION: Final = "mirrorgate.generation"
ROWS: Final = "mirrorgate.rows"
KEY_COLUMNS: Final = "mirrorgate.key_columns"
DELETED_KEYS: Final = "mirrorgate.deleted_keys"
APPENDED_ROWS: Final = "mirrorgate.appended_rows"
"""Keys of a commit's custom metadata. All values are texts."""


@dataclass(frozen=True, slots=True)
class MirrorLimits:
    """What one commit can contain, and what becomes of a generation that has ended."""

    max_files: int = 64
    max_bytes: int = 256 * 2**20
    """Bytes of decoded rows after which no further file is read."""
    replace_old: bool = False
    """Whether the Delta table of an ended generation is deleted instead of kept."""


def inspect_table(zone: LandingZone, target: MirrorTarget, table: PublishedTable) -> TableReport:
    """Return how far the mirror has applied a table; write nothing. Raise OSError if a store fails.

    Of the next file, only the columns are read: damage in its rows shows when the mirror applies it.
    """

    def check_columns(view: TableView, pending: list[DataFile]) -> TableView:
        schema = read_schema(zone, pending[0], view.metadata)
        grown(view.columns(), pending[0].path, without_marker(schema))
        return view

    return _report_after(zone, target, table, check_columns)


def advance_table(zone: LandingZone, target: MirrorTarget, table: PublishedTable, limits: MirrorLimits) -> TableReport:
    """Apply the next files of a table in at most one commit, and return how far the table is then.

    Safe to kill anywhere, and beside another mirror: the log accepts each file once. Raise OSError if a store fails, or
    a file vanishes between listing and reading.
    """

    def apply(view: TableView, pending: list[DataFile]) -> TableView:
        try:
            return _apply(zone, target, view, pending[: limits.max_files], limits)
        except CommitFailedError:  # OPTIMIZE or another mirror was faster; the next call continues
            return view_table(zone, target, table)

    return _report_after(zone, target, table, apply)


def _report_after(
    zone: LandingZone,
    target: MirrorTarget,
    table: PublishedTable,
    handle: Callable[[TableView, list[DataFile]], TableView],
) -> TableReport:
    """Look at a table, handle the files that follow its position, and report what `handle` leaves."""
    view = None
    with _store_errors(target, table):
        if zone.kind(table.folder) is not PathKind.FOLDER:
            return dropped(target, table)
        try:
            view = view_table(zone, target, table)
            view.require_order()
            pending = view.pending()
            if pending:
                view = handle(view, pending)
        except InvariantBroken as error:
            return stopped(zone, target, table, view, error)
        return report_of(zone, view)


def _apply(
    zone: LandingZone, target: MirrorTarget, view: TableView, pending: list[DataFile], limits: MirrorLimits
) -> TableView:
    """Read files, commit them, and return the view after the commit.

    Commit nothing if the folder was recreated meanwhile: the next look shows it.
    """
    batch = read_batch(zone, pending, view.metadata, view.columns(), max_bytes=limits.max_bytes)
    keys = batch.key_columns(view.metadata.key_columns)
    effect = fold(batch.rows, batch.markers, keys)
    position = Position(
        view.position.generation,
        batch.last_file,
        first_file=view.position.first_file if view.delta else view.first_file,
        last_file=fingerprint(zone, view.files.numbered[batch.last_file]),
    )
    facts = _facts(view.position.file_number + 1, position, batch, effect, keys)
    if not is_same_folder(zone, view):
        return view
    batch = replace(batch, rows=batch.rows.schema.empty_table())  # the commit needs the effect and much memory
    pa.default_memory_pool().release_unused()
    delta = view.delta
    if delta is not None:
        commit_effect(delta, effect, batch.columns, position, facts)
    else:
        is_free = view.ended is None or move_aside(target, view.table, view.ended, replace=limits.replace_old)
        uri = target.uri(view.table)
        delta = create_table(uri, effect.rows, position, facts, target.open_options(), replaces=not is_free)
    return replace(view, delta=delta, position=position, ended=None)


def _facts(first: int, position: Position, batch: LandedBatch, effect: Effect, keys: list[str]) -> dict[str, str]:
    """Return a commit's custom metadata, from which history and diff explain the version."""
    return {
        FILES: f"{first}-{batch.last_file}",
        GENERATION: str(position.generation),
        ROWS: json.dumps({str(marker): batch.counts[marker] for marker in (0, 1, 2, 4)}),
        KEY_COLUMNS: json.dumps(keys),
        DELETED_KEYS: str(0 if effect.deleted_keys is None else effect.deleted_keys.num_rows),
        APPENDED_ROWS: str(effect.rows.num_rows),
    }


@contextmanager
def _store_errors(target: MirrorTarget, table: PublishedTable) -> Iterator[None]:
    """Turn an object store's errors into `store_error`, other errors of deltalake into OSError."""
    try:
        yield
    except (DeltaError, OSError) as error:
        if target.is_remote and is_store_error(error):
            raise store_error(f"the Delta table {table}", error) from error
        if not isinstance(error, DeltaError):
            raise
        raise OSError(f"the Delta table {table} cannot be read or written: {error}") from error
