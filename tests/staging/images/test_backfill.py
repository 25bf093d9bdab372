"""A backfill gives every row its image, whatever changes go on beside it and wherever it dies."""

import itertools
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.model.change import Change
from app.domain.model.table import Table
from app.domain.model.table_options import PartialUpdates, RowImages, TableOptions
from app.domain.publication import FileLimits
from app.domain.rows.row_rules import RowRules
from app.staging.batches.batch import Batch
from app.staging.images import Backfill, BackfillState, Overtaken, find_backfill, run_backfill
from app.staging.ledger.leases import due_tables, renew_lease
from app.staging.tables.registration import record_registration, register_table
from mirrorgate.errors import Code, RejectedInput
from tests.support.backfills import (
    DRAIN,
    Died,
    ask,
    backfill_of,
    backfilled,
    cancel,
    carry_out,
    dies_after,
    purge_payloads,
)
from tests.support.forms.catalogue import FULL_FORMS
from tests.support.forms.histories import History, histories
from tests.support.forms.reading import rows_of, schema
from tests.support.gateway_parts import current, registered, stage, typed
from tests.support.postgres import sql
from tests.support.postgres.ledger import claimed
from tests.support.rejections import rejected
from tests.support.samples.changes import delete, insert, update
from tests.support.samples.images import KEEP, rows_of_images, stored_images
from tests.support.samples.schemas import schema_of

COMPLETE: Final = TableOptions(row_images=RowImages.ON, partial_updates=PartialUpdates.COMPLETE)
SCHEMA: Final = schema_of({"id": "int64", "name": "string"}, ["id"])
KEYS: Final = range(6)
_NAMES: Final = (f"t{number}" for number in itertools.count())


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


batches = st.lists(st.lists(st.sampled_from(KEYS), min_size=1, max_size=6), max_size=4)


@given(
    before=batches.filter(bool),
    after=batches,
    meanwhile=batches,
    dies_at=st.integers(0, 6),
    keys_per_step=st.integers(1, 4),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.slow
def test_every_row_has_its_newest_image_after_a_backfill(
    engine: sa.Engine,
    before: list[list[int]],
    after: list[list[int]],
    meanwhile: list[list[int]],
    dies_at: int,
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
        if next(blocks) == dies_at:
            raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.staging.images.KEYS_PER_STEP", keys_per_step)
        try:
            done = backfilled(engine, source.name, live)
        except Died:
            assert not current(engine, source.name).images_complete
            done = backfilled(engine, source.name, live)
    assert done.images_complete
    assert source.images() == source.rows
    assert backfill_of(engine, source.name).state is BackfillState.DONE


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


def test_a_backfill_continues_behind_the_block_that_it_had_done(engine: sa.Engine, three: Table) -> None:
    with pytest.raises(Died):
        backfilled(engine, "three", dies_after(2))
    left = backfill_of(engine, "three")
    assert (left.state, left.batches_done, left.rows_done) == (BackfillState.RUNNING, 2, 4)
    assert (left.rows_total, left.batches_total) == (6, 3)
    seen: list[Backfill] = []
    carry_out(engine, "three", seen.append)
    assert [(one.batches_done, one.rows_done, one.rows_total) for one in seen] == [(2, 4, 6), (3, 6, 6)]
    done = backfill_of(engine, "three")
    assert (done.state, done.started_at, done.rows_done) == (BackfillState.DONE, left.started_at, 6)
    assert len(stored_images(engine, three)) == 6


def test_a_drain_that_was_overtaken_writes_no_image_any_more(engine: sa.Engine, three: Table) -> None:
    def lose_the_table(backfill: Backfill) -> None:
        if backfill.batches_done == 1:
            stage(engine, [typed(current(engine, "three"), [delete({"id": 3})])])
            owner = UUID(int=2)
            with pytest.raises(Died):
                run_backfill(engine, claimed(engine, "three", owner), owner, dies_after(1))

    ask(engine, "three")
    with pytest.raises(Overtaken):
        carry_out(engine, "three", lose_the_table)
    left = backfill_of(engine, "three")
    assert (left.state, left.batches_done) == (BackfillState.RUNNING, 2)
    carry_out(engine, "three")
    assert sorted(int(str(one["id"])) for one in stored_images(engine, three).values()) == [1, 2, 4, 5, 6]


def test_a_drain_that_has_lost_the_table_leaves_the_backfill_to_its_owner(engine: sa.Engine, three: Table) -> None:
    ask(engine, "three")
    claimed(engine, "three", DRAIN)
    owner = UUID(int=2)
    with pytest.raises(Died):
        run_backfill(engine, claimed(engine, "three", owner), owner, dies_after(1))
    run_backfill(engine, three.table_id, DRAIN, lambda _: None)
    assert (backfill_of(engine, "three").state, backfill_of(engine, "three").batches_done) == (BackfillState.RUNNING, 1)


def is_due(engine: sa.Engine, name: str) -> bool:
    """Return whether a drain that nothing else is due for finds the table."""
    sql.run(engine, "UPDATE mirrorgate.workers SET lease_until = clock_timestamp()")
    worker = uuid4()
    with engine.begin() as connection:
        renew_lease(connection, worker, 60)
        due = bool(due_tables(connection, worker, FileLimits(2**40, 2**40, 1e9)))
    assert due == current(engine, name).backfill_due
    return due


def test_a_cancelled_backfill_stops_at_its_next_step_and_continues_when_it_is_asked_for_again(
    engine: sa.Engine, three: Table
) -> None:
    assert ask(engine, "three") == ask(engine, "three")
    assert is_due(engine, "three")
    with pytest.raises(Overtaken):
        carry_out(engine, "three", lambda one: cancel(engine, "three") if one.batches_done == 2 else None)
    cancel(engine, "three")
    left = backfill_of(engine, "three")
    assert (left.state, left.batches_done, is_due(engine, "three")) == (BackfillState.CANCELLED, 2, False)
    assert not current(engine, "three").images_complete
    carry_out(engine, "three")  # a drain that learns of the end too late
    assert len(stored_images(engine, three)) == 4
    seen: list[Backfill] = []
    assert backfilled(engine, "three", seen.append).images_complete
    assert [one.batches_done for one in seen] == [2, 3]
    assert sql.rows(engine, "SELECT actor, action FROM mirrorgate.table_events ORDER BY event_id") == [
        ("operator", "backfill"),
        ("operator", "backfill cancelled"),
        ("operator", "backfill"),
        ("drain", "backfill done"),
    ]
    assert not ask(engine, "three").backfill_due


def test_a_backfill_of_a_former_generation_is_not_due(engine: sa.Engine, three: Table) -> None:
    ask(engine, "three")
    sql.run(engine, "UPDATE mirrorgate.image_backfills SET generation = 7")
    assert not is_due(engine, "three")
    carry_out(engine, "three")
    assert stored_images(engine, three) == {}


_NUMBERS: Final = itertools.count()


@given(history=histories(), draw=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=6)
def test_rows_of_every_type_have_the_images_that_were_kept_from_the_start(
    engine: sa.Engine, history: History, draw: st.DataObject
) -> None:
    number = next(_NUMBERS)
    kept, late = f"kept{number}", f"late{number}"
    last = history.table.names[-1]
    rules = draw.draw(st.sampled_from([{}, {"rename": {last: "other"}, "audit_columns": {"operation": "_op"}}]))
    keep = TableOptions.parse({**rules, "row_images": "on"})
    for name, options in ((kept, keep), (late, TableOptions.parse(rules))):
        registered(engine, name, schema(history.table), options)
    begins_at = draw.draw(st.integers(0, len(history.transactions)))
    requests = [history.requests(form) for form in FULL_FORMS.values()]
    for at, spellings in enumerate(zip(*requests, strict=True)):
        if at == begins_at:
            registered(engine, late, None, keep)
        request = draw.draw(st.sampled_from(spellings))
        try:
            for table in (current(engine, kept), current(engine, late)):
                rows = rows_of(request, history.table, RowRules.of(table))
                if rows.rows:
                    stage(engine, [Batch(table, rows)])
        except RejectedInput as error:
            assert error.code is Code.AMBIGUOUS_KEY_CHANGE
            return
    if begins_at == len(history.transactions):
        registered(engine, late, None, keep)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.staging.images.KEYS_PER_STEP", 2)
        try:
            backfilled(engine, late, dies_after(draw.draw(st.integers(0, 6))))
        except Died:
            backfilled(engine, late)
    assert current(engine, late).images_complete
    assert rows_of_images(engine, current(engine, late)) == rows_of_images(engine, current(engine, kept))


def test_a_backfill_begins_anew_after_its_images_are_deleted(engine: sa.Engine, three: Table) -> None:
    with pytest.raises(Died):
        backfilled(engine, "three", dies_after(1))
    registered(engine, "three", None, TableOptions())
    table = registered(engine, "three", None, KEEP)
    assert stored_images(engine, table) == {}
    seen: list[Backfill] = []
    backfilled(engine, "three", seen.append)
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
        backfilled(engine, "three", dies_after(1))
    sql.run(engine, "UPDATE mirrorgate.tables SET options = options || CAST(:change AS jsonb)", change=change)
    assert (sql.call(engine, find_backfill, three) is None) is is_forgotten


def test_a_backfill_whose_images_were_deleted_cannot_continue_the_one_begun_after_it(
    engine: sa.Engine, three: Table
) -> None:
    def discarded(progress: Backfill) -> None:
        if progress.batches_done == 1:
            registered(engine, "three", None, TableOptions())
            registered(engine, "three", None, KEEP)
            with pytest.raises(Died):
                backfilled(engine, "three", dies_after(1))

    with pytest.raises(Overtaken):
        backfilled(engine, "three", discarded)
    left = backfill_of(engine, "three")
    assert (left.state, left.batches_done) == (BackfillState.RUNNING, 1)
    carry_out(engine, "three")
    assert len(stored_images(engine, three)) == 6


@pytest.mark.parametrize("is_block_gone", [False, True], ids=["payload", "block"])
def test_a_table_whose_payloads_are_purged_cannot_be_backfilled(
    engine: sa.Engine, table: Table, *, is_block_gone: bool
) -> None:
    purge_payloads(engine, "t")
    if is_block_gone:
        sql.run(engine, "DELETE FROM mirrorgate.staged_blocks")
    with rejected() as rejection:
        ask(engine, "t")
    assert (rejection.code, "load session" in rejection.text) == (Code.PAYLOADS_PURGED, True)
    assert sql.call(engine, find_backfill, table) is None


def test_a_backfill_whose_payloads_are_purged_meanwhile_fails_once_and_says_so(engine: sa.Engine, table: Table) -> None:
    ask(engine, "t")
    purge_payloads(engine, "t")
    with rejected(Code.PAYLOADS_PURGED):
        carry_out(engine, "t")
    failed = backfill_of(engine, "t")
    assert (failed.state, failed.detail, is_due(engine, "t")) == (
        BackfillState.FAILED,
        "payloads of t from batch 1 on are purged (payloads_purged)",
        False,
    )
    actions = sql.rows(engine, "SELECT actor, action FROM mirrorgate.table_events ORDER BY event_id")
    assert actions == [("operator", "backfill"), ("drain", "backfill failed")]
    assert not current(engine, "t").images_complete


def test_images_of_before_the_backfill_has_ended_are_never_read(engine: sa.Engine, table: Table) -> None:
    stage(engine, [typed(table, [insert({"id": 2, "name": "Bob"})])])
    completing = registered(engine, "t", None, COMPLETE)
    assert stored_images(engine, completing) == {}
    with rejected(Code.BAD_OPTION):
        ask(engine, "t")


def test_columns_that_came_later_are_in_the_images_of_later_rows(engine: sa.Engine, table: Table) -> None:
    wide = registered(engine, "t", schema_of({"id": "int64", "name": "string", "city": "string"}, ["id"]))
    stage(engine, [typed(wide, [insert({"id": 2, "name": "Bob", "city": "Oslo"})])])
    assert backfilled(engine, "t").images_complete
    assert stored_images(engine, wide) == {
        b"1": {"id": 1, "name": "Ada"},
        b"2": {"id": 2, "name": "Bob", "city": "Oslo"},
    }


def test_a_table_that_keeps_no_images_or_has_all_of_them_is_left_alone(engine: sa.Engine) -> None:
    registered(engine, "new", SCHEMA, KEEP)
    new = current(engine, "new")
    assert ask(engine, "new") == new
    registered(engine, "plain", SCHEMA)
    with rejected(Code.NO_ROW_IMAGES):
        ask(engine, "plain")


FILTER: Final = {"column": "name", "op": "=", "value": "Ada"}


@pytest.mark.parametrize(
    "options",
    [
        [{}, {"masks": {"name": {"method": "truncate", "characters": 1}}}],
        [{}, {"filter": FILTER}],
        [{"history": "append_only"}, {"history": "append_only"}],
        [{"filter": FILTER}, {}],
        [{"rename": {"name": "other"}}, {}],
    ],
    ids=["mask", "filter", "history", "former filter", "former name"],
)
def test_rows_that_are_not_those_of_the_source_give_no_images(engine: sa.Engine, options: list[dict[str, Any]]) -> None:
    before, after = options
    registered(engine, "t", SCHEMA, TableOptions.parse(before))
    stage(
        engine, [typed(current(engine, "t"), [insert({"id": 1, "name": "Ada"}), insert({"id": 2, "name": "Bob"}, 1)])]
    )
    for changed in (after, {**after, "row_images": "on"}):
        with engine.begin() as connection:
            name, wanted = current(engine, "t").name, TableOptions.parse(changed)
            record_registration(connection, register_table(connection, name, None, wanted), "operator")
    with rejected() as rejection:
        ask(engine, "t")
    table = current(engine, "t")
    assert (rejection.code, stored_images(engine, table), table.images_complete) == (Code.BAD_OPTION, {}, False)


def test_a_column_with_the_name_of_a_former_audit_column_has_no_value_of_it(engine: sa.Engine) -> None:
    before = registered(engine, "t", SCHEMA, TableOptions.parse({"audit_columns": {"operation": "city"}}))
    stage(engine, [typed(before, [insert({"id": 1, "name": "Ada"})])])
    registered(engine, "t", None, TableOptions())
    registered(engine, "t", schema_of({"id": "int64", "name": "string", "city": "string"}, ["id"]), KEEP)
    table = backfilled(engine, "t")
    assert stored_images(engine, table) == {b"1": {"id": 1, "name": "Ada"}}


def test_a_mask_that_is_set_during_a_backfill_stops_it(engine: sa.Engine, three: Table) -> None:
    masked = TableOptions.parse({"row_images": "on", "masks": {"name": {"method": "null"}}})
    with rejected() as rejection:
        backfilled(engine, "three", lambda _: registered(engine, "three", None, masked) and None)
    assert (rejection.code, backfill_of(engine, "three").batches_done) == (Code.BAD_OPTION, 0)
    assert not current(engine, "three").images_complete
