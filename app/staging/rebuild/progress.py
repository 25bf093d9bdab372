"""The rebuild of a table: asked for by an administrator, carried out by a drain, shown in the table's status.

`Rebuild` is the state of a rebuild. `TouchedRow` is a row that a batch changes while the rebuild copies the row images
of its table. A rebuild copies the images of one snapshot. Each batch after it notes the keys that it changes with the
images that the copies have (`note_touched` in `app.staging.batches.row_images`), so that the rebuild can correct its
copies in the end.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Final, NamedTuple

import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import Generation, Table, TableId
from app.domain.model.table_schema import SchemaVersion, TableSchema
from app.domain.rebuild import RebuildPhase, RebuildPlan, RebuiltColumn, UnfitRows, plan_rebuild
from app.staging.connection.database import BINARY_RESULT
from app.staging.loads import open_loads
from app.staging.tables.events import record_event
from app.staging.tables.operations import locked_table
from app.staging.tables.schema_versions import schema_of_version, store_version
from mirrorgate.errors import Code, RejectedInput

SELECT_TOUCHED: Final = """
    SELECT t.row_key, t.image, i.image
    FROM mirrorgate.rebuild_touched t
    LEFT JOIN mirrorgate.row_images i
      ON i.table_id = %(table_id)s AND i.generation = %(generation)s AND i.row_key = t.row_key
    WHERE t.table_id = %(table_id)s ORDER BY t.row_key LIMIT %(limit)s"""
"""Read noted keys, each with the image that the copy has and the present one."""

COUNT_TOUCHED = sa.text("SELECT count(*) FROM mirrorgate.rebuild_touched WHERE table_id = :table_id")
"""Count the noted keys of a table."""

FORGET_TOUCHED: Final = """
    DELETE FROM mirrorgate.rebuild_touched WHERE table_id = %(table_id)s AND row_key = ANY(%(keys)b)"""
"""Forget noted keys."""

CLEAR_TOUCHED = sa.text("DELETE FROM mirrorgate.rebuild_touched WHERE table_id = :table_id")
"""Forget all noted keys of a table."""


class TouchedRow(NamedTuple):
    """A key with the image that the copy has, and the present one; None if there is none."""

    row_key: bytes
    copied: bytes | None
    present: bytes | None


def read_touched(
    connection: sa.Connection, table_id: TableId, generation: Generation, *, limit: int | None = None
) -> list[TouchedRow]:
    """Return noted keys in order, at most `limit` of them. The caller holds the sequence lock."""
    parameters = {"table_id": table_id, "generation": generation, "limit": limit}
    found = connection.exec_driver_sql(SELECT_TOUCHED, parameters, execution_options=BINARY_RESULT)
    return [TouchedRow(*row) for row in found]


def count_touched(connection: sa.Connection, table_id: TableId) -> int:
    """Return the number of noted keys."""
    return int(connection.execute(COUNT_TOUCHED, {"table_id": table_id}).scalar_one())


def forget_touched(connection: sa.Connection, table_id: TableId, keys: Sequence[bytes]) -> None:
    """Forget keys whose copies are correct again, in the transaction that corrected them."""
    connection.exec_driver_sql(FORGET_TOUCHED, {"table_id": table_id, "keys": [*keys]})


def clear_touched(connection: sa.Connection, table_id: TableId) -> None:
    """Forget all noted keys."""
    connection.execute(CLEAR_TOUCHED, {"table_id": table_id})


UPSERT_REBUILD = sa.text("""
    INSERT INTO mirrorgate.rebuilds AS r (table_id, generation, phase, plan, revision, schema_version)
    VALUES (:table_id, :generation, :phase, CAST(:plan AS jsonb), :revision, :schema_version)
    ON CONFLICT (table_id) DO UPDATE SET generation = excluded.generation, phase = excluded.phase,
        plan = excluded.plan, revision = excluded.revision, schema_version = excluded.schema_version,
        attempt = r.attempt + 1, rows_total = NULL, rows_done = 0, findings = '[]', detail = NULL,
        estimated_seconds = NULL, started_at = clock_timestamp(), finished_at = NULL""")
"""Store a new rebuild in place of the last one of the table."""

SET_REBUILD_DUE = sa.text("UPDATE mirrorgate.tables SET rebuild_due = :due WHERE table_id = :table_id")
"""Set whether a rebuild of the table is due."""

SELECT_REBUILDS = sa.text("""
    SELECT table_id, generation, phase, attempt, plan, revision, schema_version, rows_total, rows_done, findings,
        detail, estimated_seconds, started_at, finished_at
    FROM mirrorgate.rebuilds WHERE table_id = ANY(:table_ids)""")
"""Read the last rebuilds of tables."""

LOCK_REBUILD = sa.text("SELECT FROM mirrorgate.rebuilds WHERE table_id = :table_id FOR UPDATE")
"""Lock the rebuild of a table until the transaction ends."""

START_ATTEMPT = sa.text("""
    UPDATE mirrorgate.rebuilds SET attempt = attempt + 1, rows_total = NULL, rows_done = 0
    WHERE table_id = :table_id AND phase IN ('checking', 'copying')""")
"""Count an attempt."""

NOTE_ROWS = sa.text("""
    UPDATE mirrorgate.rebuilds SET rows_total = :total, rows_done = :done
    WHERE table_id = :table_id AND attempt = :attempt""")
"""Store how many rows an attempt has read."""

NOTE_DETAIL = sa.text("""
    UPDATE mirrorgate.rebuilds SET detail = :detail WHERE table_id = :table_id AND attempt = :attempt""")
"""Store why an attempt failed; the next one may succeed."""

END_REBUILD = sa.text("""
    UPDATE mirrorgate.rebuilds SET phase = :phase, detail = :detail, findings = CAST(:findings AS jsonb),
        estimated_seconds = :estimated_seconds, finished_at = clock_timestamp()
    WHERE table_id = :table_id""")
"""End a rebuild or a dry run."""

DISCARD_COPIES: Final = tuple(
    sa.text(f"DELETE FROM mirrorgate.{table} WHERE table_id = :table_id AND generation = :generation")  # noqa: S608  # constant text
    for table in ("block_payloads", "staged_blocks", "row_images", "schema_versions")
)
"""Delete what an attempt has copied into the next generation."""


ColumnsOf = Callable[[TableSchema], Sequence[RebuiltColumn]]
"""Returns the columns of the next generation for the present ones, which it is given under the lock of the table."""


class AttemptIsOver(Exception):
    """Another attempt has replaced this one, or the rebuild has ended."""


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A rebuild, or its dry run, as it was read at one moment."""

    table_id: TableId
    generation: Generation
    """The generation whose row images are read."""
    phase: RebuildPhase
    attempt: int
    plan: RebuildPlan
    revision: int
    schema_version: SchemaVersion
    rows_total: int | None
    rows_done: int
    findings: Sequence[UnfitRows]
    detail: str | None
    estimated_seconds: float | None
    started_at: datetime
    finished_at: datetime | None

    @property
    def next_generation(self) -> Generation:
        """The generation that gets the rows."""
        return Generation(self.generation + 1)

    @property
    def fits(self) -> bool:
        """True after a dry run that has found no row that does not fit."""
        return self.phase is RebuildPhase.CHECKED and not self.findings

    @property
    def fingerprint(self) -> str:
        """Hash that distinguishes the plan, for the columns and options that it was made for, from every other plan."""
        facts = [self.generation, self.revision, self.schema_version, self.plan.to_json()]
        return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def begin_rebuild(
    connection: sa.Connection,
    name: TableName,
    generation: Generation,
    columns: Sequence[RebuiltColumn] | ColumnsOf | None,
    key_columns: Sequence[str] | None,
    actor: str,
    *,
    dry_run: bool,
) -> Table:
    """Ask the drain to rebuild a table, or to find out how that would go. Repeating it changes nothing.

    From the commit on, each batch notes the rows that it changes. A process that dies before it leaves the table as it
    was. Raises RejectedInput `unknown_table`, `generation_mismatch`, `wrong_table_state`, `load_open`, or like
    `plan_rebuild`.
    """
    table = _locked_for_rebuild(connection, name, generation)
    plan = plan_rebuild(table, columns(table.schema) if callable(columns) else columns, key_columns)
    phase = RebuildPhase.CHECKING if dry_run else RebuildPhase.COPYING
    present = find_rebuild(connection, table.table_id)
    if table.rebuild_due and present is not None:
        if (present.plan, present.phase) == (plan, phase):
            return table
        raise RejectedInput(Code.WRONG_TABLE_STATE, f"table {table.name} is already being rebuilt or checked")
    return _begin(connection, table, plan, phase, actor)


def begin_checked_rebuild(
    connection: sa.Connection, name: TableName, generation: Generation, fingerprint: str, actor: str
) -> Table:
    """Ask the drain to rebuild a table by the plan of the last dry run. Repeating it changes nothing.

    `fingerprint` is that of the plan that was shown: if another one is stored by now, or the table has other columns,
    nothing begins. A process that dies before the commit leaves the dry run. Raises RejectedInput like `begin_rebuild`.
    """
    table = _locked_for_rebuild(connection, name, generation)
    shown = find_rebuild(connection, table.table_id)
    if shown is not None and shown.fingerprint == fingerprint:
        if shown.phase is RebuildPhase.COPYING:
            return table
        if shown.fits and is_planned_for(connection, shown, table):
            plan = plan_rebuild(table, shown.plan.columns_from(table.schema), shown.plan.schema.key_columns)
            return _begin(connection, table, plan, RebuildPhase.COPYING, actor)
    detail = f"the plan that was shown is not the last one that was checked for table {table.name}, or it does not fit"
    raise RejectedInput(
        Code.WRONG_TABLE_STATE, detail, remedy="Read the plan on the page of the table, or check it again."
    )


def _locked_for_rebuild(connection: sa.Connection, name: TableName, generation: Generation) -> Table:
    table = locked_table(connection, name, generation)
    if table.state.deletes_folder:
        raise RejectedInput(Code.WRONG_TABLE_STATE, f"table {table.name} is {table.state}")
    load = open_loads(connection, [table.table_id]).get(table.table_id)
    if load is not None:
        raise RejectedInput(Code.LOAD_OPEN, f"the table has the open load {load.load_id}")
    return table


def _begin(connection: sa.Connection, table: Table, plan: RebuildPlan, phase: RebuildPhase, actor: str) -> Table:
    parameters = {
        "table_id": table.table_id,
        "generation": table.generation,
        "phase": phase,
        "plan": json.dumps(plan.to_json()),
        "revision": table.revision,
        "schema_version": table.schema_version,
    }
    connection.execute(UPSERT_REBUILD, parameters)
    connection.execute(SET_REBUILD_DUE, {"table_id": table.table_id, "due": True})
    details = {"schema": plan.schema.to_json(), "places": list(plan.places)}
    action = "rebuild dry run" if phase is RebuildPhase.CHECKING else "rebuild"
    record_event(connection, table, actor, action, details=details)
    return replace(table, rebuild_due=True)


def find_rebuild(connection: sa.Connection, table_id: TableId) -> Rebuild | None:
    """Return the last rebuild of a table."""
    return find_rebuilds(connection, [table_id]).get(table_id)


def find_rebuilds(connection: sa.Connection, table_ids: Sequence[TableId]) -> dict[TableId, Rebuild]:
    """Return the last rebuild of each of these tables that had one."""
    rows = connection.execute(SELECT_REBUILDS, {"table_ids": list(table_ids)}).mappings()
    return {TableId(row["table_id"]): _rebuild(row) for row in rows}


def is_planned_for(connection: sa.Connection, rebuild: Rebuild, table: Table) -> bool:
    """Return True if the table still has the columns, keys and options of the plan; its files may need a marker now."""
    if (rebuild.generation, rebuild.revision) != (table.generation, table.revision):
        return False
    planned = schema_of_version(connection, table.table_id, table.generation, rebuild.schema_version)
    return (planned.columns, planned.key_columns) == (table.schema.columns, table.schema.key_columns)


def start_attempt(connection: sa.Connection, table_id: TableId) -> Rebuild | None:
    """Begin to copy from the start, and return the rebuild; None if none is due.

    What an earlier attempt copied is deleted with the schema version that its blocks refer to, so a task of it that
    still runs cannot commit any more. A process that dies after the commit leaves an attempt that the next replaces.
    """
    connection.execute(LOCK_REBUILD, {"table_id": table_id})
    if connection.execute(START_ATTEMPT, {"table_id": table_id}).rowcount == 0:
        return None
    rebuild = find_rebuild(connection, table_id)
    assert rebuild is not None
    _discard_copies(connection, rebuild)
    if rebuild.phase is RebuildPhase.COPYING:
        store_version(connection, table_id, rebuild.next_generation, SchemaVersion(1), rebuild.plan.schema)
    return rebuild


def holds_attempt(connection: sa.Connection, rebuild: Rebuild) -> bool:
    """Return True if this attempt is still the one that is due; if so, it remains that until the transaction ends."""
    connection.execute(LOCK_REBUILD, {"table_id": rebuild.table_id})
    present = find_rebuild(connection, rebuild.table_id)
    return present is not None and (present.attempt, present.phase) == (rebuild.attempt, rebuild.phase)


def require_attempt(connection: sa.Connection, rebuild: Rebuild) -> None:
    """Raise AttemptIsOver unless this attempt is the one that is due until the transaction ends."""
    if not holds_attempt(connection, rebuild):
        raise AttemptIsOver


def note_rows(connection: sa.Connection, rebuild: Rebuild, *, total: int, done: int) -> None:
    """Store how many rows an attempt has read, for those who wait."""
    keys = {"table_id": rebuild.table_id, "attempt": rebuild.attempt, "total": total, "done": done}
    connection.execute(NOTE_ROWS, keys)


def note_detail(connection: sa.Connection, rebuild: Rebuild, detail: str) -> None:
    """Store why an attempt failed."""
    keys = {"table_id": rebuild.table_id, "attempt": rebuild.attempt, "detail": detail}
    connection.execute(NOTE_DETAIL, keys)


def end_check(
    connection: sa.Connection, rebuild: Rebuild, findings: Sequence[UnfitRows], *, estimated_seconds: float
) -> None:
    """Store what a dry run has found. A process that dies before the commit leaves the dry run to the next attempt."""
    _end(connection, rebuild, RebuildPhase.CHECKED, findings, None, estimated_seconds)


def fail_rebuild(connection: sa.Connection, rebuild: Rebuild, findings: Sequence[UnfitRows], detail: str) -> None:
    """Give a rebuild up and discard its copies; the table remains in its present generation.

    An attempt that is over changes nothing: the copies, or the table itself by now, are those of another one.
    A process that dies before the commit leaves the rebuild to the next attempt, which comes to the same end.
    """
    if _end(connection, rebuild, RebuildPhase.FAILED, findings, detail, None):
        _discard_copies(connection, rebuild)


def _end(
    connection: sa.Connection,
    rebuild: Rebuild,
    phase: RebuildPhase,
    findings: Sequence[UnfitRows],
    detail: str | None,
    estimated_seconds: float | None,
) -> bool:
    """End the rebuild unless this attempt of it is over; return whether it did."""
    if not holds_attempt(connection, rebuild):
        return False
    ended = {
        "table_id": rebuild.table_id,
        "phase": phase,
        "detail": detail,
        "findings": json.dumps([asdict(finding) for finding in findings]),
        "estimated_seconds": estimated_seconds,
    }
    connection.execute(END_REBUILD, ended)
    connection.execute(SET_REBUILD_DUE, {"table_id": rebuild.table_id, "due": False})
    clear_touched(connection, rebuild.table_id)
    return True


def _discard_copies(connection: sa.Connection, rebuild: Rebuild) -> None:
    keys = {"table_id": rebuild.table_id, "generation": rebuild.next_generation}
    for statement in DISCARD_COPIES:
        connection.execute(statement, keys)


def _rebuild(row: sa.RowMapping) -> Rebuild:
    findings = [UnfitRows(f["column"], Code(f["code"]), f["rows"], f["first_row"]) for f in row["findings"]]
    parsed = {
        "phase": RebuildPhase(row["phase"]),
        "plan": RebuildPlan.from_json(row["plan"]),
        "findings": findings,
    }
    return Rebuild(**{**row, **parsed})
