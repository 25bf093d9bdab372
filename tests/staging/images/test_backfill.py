"""A backfill gives every row its image, whatever changes go on beside it and wherever it dies."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.model.change import Change
from app.domain.model.table import Table
from app.domain.model.table_options import PartialUpdates, RowImages, TableOptions
from app.errors import Code
from app.staging.images.backfill.progress import Backfill, BackfillState, find_backfill
from app.staging.images.backfill.run import backfill_images, cancel
from app.staging.tables.registration import register_table
from app.staging.tables.registration_events import record_registration
from tests.support.gateway_parts import current, registered, stage, typed
from tests.support.postgres import sql
from tests.support.rejections import rejected
from tests.support.samples.changes import delete, insert, update
from tests.support.samples.images import stored_images
from tests.support.samples.schemas import schema_of

KEEP: Final = TableOptions(row_images=RowImages.ON)
COMPLETE: Final = TableOptions(row_images=RowImages.ON, partial_updates=PartialUpdates.COMPLETE)
SCHEMA: Final = schema_of({"id": "int64", "name": "string"}, ["id"])
KEYS: Final = range(6)
_NAMES: Final = (f"t{number}" for number in itertools.count())


class Died(Exception):
    """The process of the backfill dies."""


class Source:
    """A source table that sends drawn changes, and what its rows are then."""

    def __init__(self, engine: sa.Engine, name: str) -> None:
        self.engine, self.name = engine, name
        self.rows: dict[int, str] = {}
        self._values = itertools.count()

    def send(self, keys: Sequence[int]) -> None:
        """Send one batch: each key in turn is inserted, or updated, moved or deleted if it is there."""
        changes: list[Change] = []
        for at, key in enumerate(keys):
            value = next(self._values)
            if key not in self.rows:
                changes.append(insert({"id": key, "name": str(value)}, at))
                self.rows[key] = str(value)
            elif value % 3:
                changes.append(update(None, {"id": key, "name": str(value)}, at))
                self.rows[key] = str(value)
            else:
                changes.append(delete({"id": key}, at))
                del self.rows[key]
        stage(self.engine, [typed(current(self.engine, self.name), changes)])

    def images(self) -> dict[Any, Any]:
        images = stored_images(self.engine, current(self.engine, self.name)).values()
        return {image["id"]: image["name"] for image in images}


def progress_of(engine: sa.Engine, table: Table) -> Backfill:
    with engine.begin() as connection:
        found = find_backfill(connection, table)
    assert found is not None
    return found


batches = st.lists(st.lists(st.sampled_from(KEYS), min_size=1, max_size=6), max_size=4)


@given(
    before=batches.filter(bool),
    after=batches,
    meanwhile=batches,
    dies_after=st.integers(0, 6),
    keys_per_step=st.integers(1, 4),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_every_row_has_its_newest_image_after_a_backfill(
    engine: sa.Engine,
    before: list[list[int]],
    after: list[list[int]],
    meanwhile: list[list[int]],
    dies_after: int,
    keys_per_step: int,
) -> None:
    source = Source(engine, next(_NAMES))
    registered(engine, source.name, SCHEMA)
    for keys in before:
        source.send(keys)
    table = registered(engine, source.name, None, KEEP)
    for keys in after:
        source.send(keys)
    assert not table.images_complete
    blocks = itertools.count()

    def live(progress: Backfill) -> None:
        assert progress.through_sequence <= progress.batches_total
        if meanwhile:
            source.send(meanwhile.pop())
        if next(blocks) == dies_after:
            raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.staging.images.backfill.payloads.KEYS_PER_STEP", keys_per_step)
        try:
            done = backfill_images(engine, table.name, live)
        except Died:
            assert not current(engine, source.name).images_complete
            done = backfill_images(engine, table.name, live)
    assert done.images_complete
    assert source.images() == source.rows
    assert progress_of(engine, done).state is BackfillState.DONE


@pytest.fixture
def table(engine: sa.Engine) -> Table:
    """Give a table with a row from before it kept images."""
    stage(engine, [typed(registered(engine, "t", SCHEMA), [insert({"id": 1, "name": "Ada"})])])
    return registered(engine, "t", None, KEEP)


@pytest.fixture
def three(engine: sa.Engine) -> Table:
    """Give a table with three batches from before it kept images, of two rows each."""
    for first in (1, 3, 5):
        rows = [insert({"id": key, "name": str(key)}, key - first) for key in (first, first + 1)]
        stage(engine, [typed(registered(engine, "three", SCHEMA), rows)])
    return registered(engine, "three", None, KEEP)


def dies_after(steps: int, seen: list[Backfill]) -> Callable[[Backfill], None]:
    def die(progress: Backfill) -> None:
        seen.append(progress)
        if len(seen) > steps:
            raise Died

    return die


def test_a_backfill_continues_behind_the_block_that_it_had_done(engine: sa.Engine, three: Table) -> None:
    seen: list[Backfill] = []
    with pytest.raises(Died):
        backfill_images(engine, three.name, dies_after(2, seen))
    left = progress_of(engine, three)
    assert (left.state, left.attempt, left.batches_done, left.rows_done) == (BackfillState.RUNNING, 1, 2, 4)
    assert (left.rows_total, left.batches_total) == (6, 3)
    seen.clear()
    backfill_images(engine, three.name, seen.append)
    assert [(one.attempt, one.batches_done, one.rows_done, one.rows_total) for one in seen] == [
        (2, 2, 4, 6),
        (2, 3, 6, 6),
    ]
    done = progress_of(engine, three)
    assert (done.state, done.started_at, done.rows_done) == (BackfillState.DONE, left.started_at, 6)
    assert len(stored_images(engine, three)) == 6


def test_a_backfill_that_died_before_its_first_row_is_continued_with_its_start(engine: sa.Engine, three: Table) -> None:
    with pytest.raises(Died):
        backfill_images(engine, three.name, dies_after(0, []))
    left = progress_of(engine, three)
    assert left.rows_done == 0
    backfill_images(engine, three.name, lambda _: None)
    assert progress_of(engine, three).started_at == left.started_at


def test_only_one_process_runs_a_backfill_and_anyone_can_cancel_it(engine: sa.Engine, three: Table) -> None:
    def overtaken(progress: Backfill) -> None:
        if (progress.attempt, progress.batches_done) == (1, 1):
            with pytest.raises(Died):
                backfill_images(engine, three.name, dies_after(0, []))

    with rejected() as rejection:
        backfill_images(engine, three.name, overtaken)
    assert rejection.code is Code.BACKFILL_STOPPED
    assert progress_of(engine, three).state is BackfillState.RUNNING, "the other process continues it"

    with rejected() as rejection:
        backfill_images(engine, three.name, lambda one: one.batches_done == 2 and cancel(engine, three.name))
    assert rejection.code is Code.BACKFILL_STOPPED
    left = progress_of(engine, three)
    assert (left.state, left.batches_done, current(engine, "three").images_complete) == (
        BackfillState.CANCELLED,
        2,
        False,
    )
    assert not cancel(engine, three.name)
    assert backfill_images(engine, three.name, lambda _: None).images_complete


def test_a_backfill_begins_anew_after_its_images_are_deleted(engine: sa.Engine, three: Table) -> None:
    with pytest.raises(Died):
        backfill_images(engine, three.name, dies_after(1, []))
    registered(engine, "three", None, TableOptions())
    table = registered(engine, "three", None, KEEP)
    assert stored_images(engine, table) == {}
    seen: list[Backfill] = []
    backfill_images(engine, table.name, seen.append)
    assert [one.batches_done for one in seen] == [0, 1, 2, 3]
    assert len(stored_images(engine, table)) == 6


@pytest.mark.parametrize(
    ("change", "is_forgotten"),
    [
        ('{"row_images": "off"}', True),
        ('{"partial_updates": "complete"}', True),  # images that are not complete are deleted then
        ('{"deletes": "flag"}', True),
        ('{"reload": "upsert"}', False),
    ],
)
def test_the_database_forgets_a_backfill_whose_images_any_program_deletes(
    engine: sa.Engine, three: Table, change: str, is_forgotten: bool
) -> None:
    with pytest.raises(Died):
        backfill_images(engine, three.name, dies_after(1, []))
    sql.run(engine, "UPDATE mirrorgate.tables SET options = options || CAST(:change AS jsonb)", change=change)
    with engine.begin() as connection:
        assert (find_backfill(connection, three) is None) is is_forgotten


def test_a_backfill_whose_images_were_deleted_cannot_continue_the_one_begun_after_it(
    engine: sa.Engine, three: Table
) -> None:
    def discarded(progress: Backfill) -> None:
        if (progress.attempt, progress.batches_done) == (1, 1):
            registered(engine, "three", None, TableOptions())
            registered(engine, "three", None, KEEP)
            with pytest.raises(Died):
                backfill_images(engine, three.name, dies_after(0, []))

    with rejected() as rejection:
        backfill_images(engine, three.name, discarded)
    assert rejection.code is Code.BACKFILL_STOPPED
    left = progress_of(engine, three)
    assert (left.state, left.attempt, left.batches_done) == (BackfillState.RUNNING, 1, 0)
    backfill_images(engine, three.name, lambda _: None)
    assert len(stored_images(engine, three)) == 6


def test_a_table_whose_payloads_are_purged_cannot_be_backfilled(engine: sa.Engine, table: Table) -> None:
    sql.run(engine, "DELETE FROM mirrorgate.block_payloads")
    with rejected() as rejection:
        backfill_images(engine, table.name, lambda _: None)
    assert rejection.code is Code.PAYLOADS_PURGED
    assert not current(engine, "t").images_complete
    failed = progress_of(engine, table)
    assert (failed.state, failed.detail) == (
        BackfillState.FAILED,
        "the payloads of t from batch 1 on are purged (payloads_purged)",
    )


def test_a_table_whose_blocks_are_purged_cannot_be_backfilled(engine: sa.Engine, table: Table) -> None:
    sql.run(engine, "DELETE FROM mirrorgate.block_payloads")
    sql.run(engine, "DELETE FROM mirrorgate.staged_blocks")
    with rejected() as rejection:
        backfill_images(engine, table.name, lambda _: None)
    assert rejection.code is Code.PAYLOADS_PURGED


def test_images_of_before_the_backfill_has_ended_are_never_read(engine: sa.Engine, table: Table) -> None:
    stage(engine, [typed(table, [insert({"id": 2, "name": "Bob"})])])
    completing = registered(engine, "t", None, COMPLETE)
    assert stored_images(engine, completing) == {}
    with rejected() as rejection:
        backfill_images(engine, table.name, lambda _: None)
    assert rejection.code is Code.BAD_OPTION


def test_columns_that_came_later_are_in_the_images_of_later_rows(engine: sa.Engine, table: Table) -> None:
    wide = registered(engine, "t", schema_of({"id": "int64", "name": "string", "city": "string"}, ["id"]))
    stage(engine, [typed(wide, [insert({"id": 2, "name": "Bob", "city": "Oslo"})])])
    assert backfill_images(engine, table.name, lambda _: None).images_complete
    assert stored_images(engine, wide) == {
        b"1": {"id": 1, "name": "Ada"},
        b"2": {"id": 2, "name": "Bob", "city": "Oslo"},
    }


def test_a_table_that_keeps_no_images_or_has_all_of_them_is_left_alone(engine: sa.Engine) -> None:
    registered(engine, "new", SCHEMA, KEEP)
    new = current(engine, "new")
    assert backfill_images(engine, new.name, lambda _: None) == new
    with rejected() as rejection:
        backfill_images(engine, registered(engine, "plain", SCHEMA).name, lambda _: None)
    assert rejection.code is Code.NO_ROW_IMAGES


FILTER: Final = {"column": "name", "op": "=", "value": "Ada"}


@pytest.mark.parametrize(
    "rules", [{"masks": {"name": {"method": "truncate", "characters": 1}}}, {"filter": FILTER}], ids=["mask", "filter"]
)
def test_rows_that_masks_or_a_filter_change_give_no_images(engine: sa.Engine, rules: dict[str, Any]) -> None:
    before = registered(engine, "t", SCHEMA)
    stage(engine, [typed(before, [insert({"id": 1, "name": "Ada"})])])
    table = registered(engine, "t", None, TableOptions.parse({"row_images": "on", **rules}))
    with rejected() as rejection:
        backfill_images(engine, table.name, lambda _: None)
    assert rejection.code is Code.BAD_OPTION
    assert (stored_images(engine, table), current(engine, "t").images_complete) == ({}, False)


def test_a_mask_that_is_set_during_a_backfill_stops_it(engine: sa.Engine, three: Table) -> None:
    masked = TableOptions.parse({"row_images": "on", "masks": {"name": {"method": "null"}}})
    with rejected() as rejection:
        backfill_images(engine, three.name, lambda _: registered(engine, "three", None, masked))
    assert (rejection.code, progress_of(engine, three).batches_done) == (Code.BAD_OPTION, 0)
    assert not current(engine, "three").images_complete


def test_rows_that_a_former_filter_left_out_are_not_taken_for_complete(engine: sa.Engine) -> None:
    table = registered(engine, "t", SCHEMA, TableOptions.parse({"filter": FILTER}))
    stage(engine, [typed(table, [insert({"id": 1, "name": "Ada"}), insert({"id": 2, "name": "Bob"}, 1)])])
    for options in (TableOptions(), KEEP):
        with engine.begin() as connection:
            record_registration(connection, register_table(connection, table.name, None, options), "operator")
    with rejected() as rejection:
        backfill_images(engine, table.name, lambda _: None)
    assert rejection.code is Code.BAD_OPTION
    assert not current(engine, "t").images_complete
