"""A backfill that a drain is asked for: continued wherever a drain dies, cancelled, and refused clearly."""

from collections.abc import Callable
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import Generation, Table
from app.domain.model.table_options import RowImages, TableOptions
from app.domain.publication.drain_plan import FileLimits
from app.errors import Code
from app.mirror.typed_rows import VersionRows
from app.staging.images.backfill.progress import Backfill, BackfillState, BackfillStep, find_backfill
from app.staging.images.backfill.request import request_backfill, stop_backfill
from app.staging.images.backfill.run import backfill_images, run_asked
from app.staging.ledger.leases import due_tables, renew_lease
from tests.support.gateway_parts import current, registered, stage, typed
from tests.support.mirrored_tables import MirroredTable
from tests.support.postgres import sql
from tests.support.postgres.ledger import claimed
from tests.support.postgres.retention import purge
from tests.support.rejections import rejected
from tests.support.samples.changes import delete, insert
from tests.support.samples.images import stored_images
from tests.support.samples.schemas import schema_of

T: Final = TableName.parse("t")
ONE: Final = Generation(1)
KEEP: Final = TableOptions(row_images=RowImages.ON)
DRAIN: Final = UUID(int=1)
NEVER: Final = FileLimits(2**40, 2**40, 1e9)
"""Nothing is published, so that a table is due for its backfill alone."""


class Died(Exception):
    """The drain dies."""


def die(_: Backfill) -> None:
    raise Died


@pytest.fixture
def mirrored(engine: sa.Engine, tmp_path: Path) -> MirroredTable:
    """Give a mirrored table that keeps row images since its payloads were purged: rows 1 to 5, and 6 in a payload."""
    table = registered(engine, "t", schema_of({"id": "int64", "name": "string"}, ["id"]))
    found = MirroredTable(engine, table, tmp_path)
    stage(engine, [typed(table, [insert({"id": key, "name": "old"}, key) for key in range(1, 6)])])
    found.publish()
    purge(engine)
    found.mirror()
    registered(engine, "t", None, KEEP)
    stage(engine, [typed(current(engine, "t"), [insert({"id": 6, "name": "new"}), delete({"id": 2}, 1)])])
    return found


def ask(engine: sa.Engine) -> Table:
    with engine.begin() as connection:
        return request_backfill(connection, T, ONE, "operator")


def cancel(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        stop_backfill(connection, T, ONE, "operator")


def backfill_of(engine: sa.Engine) -> Backfill:
    with engine.begin() as connection:
        found = find_backfill(connection, current(engine, "t"))
    assert found is not None
    return found


def is_due(engine: sa.Engine) -> bool:
    sql.run(engine, "UPDATE mirrorgate.workers SET lease_until = clock_timestamp()")
    with engine.begin() as connection:
        worker = uuid4()
        renew_lease(connection, worker, 60)
        due = bool(due_tables(connection, worker, NEVER, limit=10))
    assert due == current(engine, "t").backfill_due
    return due


def run(engine: sa.Engine, mirrored: MirroredTable, progress: Callable[[Backfill], None] = lambda _: None) -> None:
    run_asked(engine, claimed(engine, "t", DRAIN), DRAIN, progress, mirrored.reader)


def keys(engine: sa.Engine) -> list[int]:
    return sorted(int(str(one["id"])) for one in stored_images(engine, current(engine, "t")).values())


def events(engine: sa.Engine) -> list[tuple[str, str]]:
    found = sql.rows(engine, "SELECT actor, action FROM mirrorgate.table_events ORDER BY event_id")
    return [(actor, action) for actor, action in found]


def test_drains_that_die_at_each_step_complete_it(
    engine: sa.Engine, mirrored: MirroredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for reader in ("mirrored", "payloads"):
        monkeypatch.setattr(f"app.staging.images.backfill.{reader}.KEYS_PER_STEP", 2)
    ask(engine)
    assert (backfill_of(engine).state, is_due(engine)) == (BackfillState.RUNNING, True)
    died = []

    def die_after(steps: int) -> Callable[[Backfill], None]:
        left = [steps]

        def count(backfill: Backfill) -> None:
            if left[0] == 0:
                died.append(backfill.step)
                raise Died
            left[0] -= 1

        return count

    with pytest.raises(Died):
        run(engine, mirrored, die_after(0))
    while is_due(engine) and len(died) < 20:
        try:
            run(engine, mirrored, die_after(1))
        except Died:
            assert is_due(engine)
    assert [*dict.fromkeys(died)] == [*BackfillStep]
    assert (backfill_of(engine).state, keys(engine)) == (BackfillState.DONE, [1, 3, 4, 5, 6])
    assert current(engine, "t").images_complete
    assert events(engine) == [("operator", "backfill"), ("drain", "backfill done")]
    assert ask(engine).backfill_due is False  # complete: nothing to do


def test_a_cancelled_backfill_begins_no_attempt_and_continues_when_it_is_asked_for_again(
    engine: sa.Engine, mirrored: MirroredTable
) -> None:
    ask(engine)
    attempt = ask(engine) and backfill_of(engine).attempt

    def opened(name: TableName, version: int | None) -> VersionRows:
        cancel(engine)
        return mirrored.reader(name, version)

    with rejected() as rejection:
        run_asked(engine, claimed(engine, "t", DRAIN), DRAIN, lambda _: None, opened)
    assert (rejection.code, attempt) == (Code.BACKFILL_STOPPED, 1)
    assert (backfill_of(engine).state, backfill_of(engine).attempt) == (BackfillState.CANCELLED, 1)
    cancel(engine)
    assert not is_due(engine)
    run(engine, mirrored)  # a drain that learns of the end too late
    assert keys(engine) == [6]
    ask(engine)

    def cancelled_behind_a_step(backfill: Backfill) -> None:
        if backfill.mirror_rows:
            cancel(engine)

    with rejected() as rejection:
        run(engine, mirrored, cancelled_behind_a_step)
    assert (rejection.code, backfill_of(engine).mirror_rows) == (Code.BACKFILL_STOPPED, 5)
    ask(engine)
    seen: list[int] = []
    run(engine, mirrored, lambda backfill: seen.append(backfill.mirror_rows))
    assert (min(seen), keys(engine)) == (5, [1, 3, 4, 5, 6])
    assert [action for _, action in events(engine)] == [
        "backfill", "backfill cancelled", "backfill", "backfill cancelled", "backfill", "backfill done"
    ]  # fmt: skip


def test_a_command_and_a_drain_take_a_backfill_over_from_each_other(engine: sa.Engine, mirrored: MirroredTable) -> None:
    with pytest.raises(Died):
        backfill_images(engine, T, die, mirrored.reader)
    assert not is_due(engine)
    ask(engine)
    assert (backfill_of(engine).attempt, backfill_of(engine).step, is_due(engine)) == (2, BackfillStep.MIRROR, True)
    with pytest.raises(Died):
        backfill_images(engine, T, die, mirrored.reader)
    assert (backfill_of(engine).attempt, is_due(engine)) == (3, False)
    ask(engine)
    run(engine, mirrored)
    assert current(engine, "t").images_complete


def test_a_drain_that_has_lost_the_table_leaves_the_backfill_to_its_owner(
    engine: sa.Engine, mirrored: MirroredTable
) -> None:
    table = ask(engine)
    claimed(engine, "t", DRAIN)
    owner = UUID(int=2)
    with pytest.raises(Died):
        run_asked(engine, claimed(engine, "t", owner), owner, die, mirrored.reader)
    for reader in (None, mirrored.reader):
        run_asked(engine, table.table_id, DRAIN, lambda _: None, reader)
        assert (backfill_of(engine).state, backfill_of(engine).attempt) == (BackfillState.RUNNING, 2)


def test_what_a_drain_cannot_do_is_refused_once_and_said(engine: sa.Engine, mirrored: MirroredTable) -> None:
    ask(engine)
    with rejected() as rejection:
        run_asked(engine, claimed(engine, "t", DRAIN), DRAIN, lambda _: None, None)
    assert (rejection.code, "MIRRORGATE_MIRROR_TARGET of the drain" in rejection.text) == (Code.PAYLOADS_PURGED, True)
    failed = backfill_of(engine)
    assert (failed.state, failed.detail, is_due(engine)) == (
        BackfillState.FAILED,
        "the payloads of t from batch 1 on are purged, and no target of a Delta mirror is named (payloads_purged)",
        False,
    )
    assert events(engine) == [("operator", "backfill"), ("drain", "backfill failed")]
    ask(engine)
    registered(engine, "t", None, TableOptions())
    assert not is_due(engine)


def test_a_version_at_which_a_backfill_failed_is_not_opened_again(engine: sa.Engine, mirrored: MirroredTable) -> None:
    ask(engine)
    with pytest.raises(Died):
        run(engine, mirrored, die)
    sql.run(engine, "UPDATE mirrorgate.image_backfills SET state = 'failed', finished_at = clock_timestamp()")
    ask(engine)
    opened: list[int | None] = []

    def reader(name: TableName, version: int | None) -> VersionRows:
        opened.append(version)
        return mirrored.reader(name, version)

    run_asked(engine, claimed(engine, "t", DRAIN), DRAIN, lambda _: None, reader)
    assert (opened, current(engine, "t").images_complete) == ([None], True)


def test_a_table_of_another_generation_is_not_due(engine: sa.Engine, mirrored: MirroredTable) -> None:
    ask(engine)
    sql.run(engine, "UPDATE mirrorgate.image_backfills SET generation = 7")
    assert not is_due(engine)
    run(engine, mirrored)
    assert keys(engine) == [6]
