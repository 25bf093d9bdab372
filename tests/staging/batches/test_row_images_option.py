"""`row_images=on`: the newest row of each key is kept, and what lands stays the same."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from app.domain.model.table import Table
from app.domain.model.table_options import PartialUpdates, TableOptions
from mirrorgate.errors import Code
from tests.support.gateway_parts import current, registered, stage, typed
from tests.support.postgres.retention import WEEK, purge
from tests.support.rejections import rejected
from tests.support.samples.changes import delete, insert, update, upsert
from tests.support.samples.images import COMPLETE, KEEP, staged_batches, stored_images
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "name": "string", "total": "decimal(9,2)"}, ["id"])
ADA = insert({"id": 1, "name": "Ada", "total": "1.5"})
BOB = insert({"id": 2, "name": "Bob", "total": None})


@pytest.fixture
def table(engine: sa.Engine) -> Table:
    return registered(engine, "t", SCHEMA, KEEP)


def test_every_operation_leaves_the_newest_row_of_its_key(engine: sa.Engine, table: Table) -> None:
    stage(
        engine,
        [typed(table, [ADA, BOB, insert({"id": 3, "name": "Cy", "total": 3})])],
        [typed(table, [update({"id": 1}, {"id": 1, "name": "Eve", "total": 2})])],
        [typed(table, [delete({"id": 2}), upsert({"id": 4, "name": "Di", "total": 4})])],
        [typed(table, [update({"id": 3, "name": "Cy", "total": 3}, {"id": 5, "name": "Cy", "total": 3})])],
    )
    assert stored_images(engine, table) == {
        b"1": {"id": 1, "name": "Eve", "total": 2},
        b"4": {"id": 4, "name": "Di", "total": 4},
        b"5": {"id": 5, "name": "Cy", "total": 3},
    }
    assert current(engine, "t").images_complete


def test_partial_updates_are_still_rejected(engine: sa.Engine, table: Table) -> None:
    stage(engine, [typed(table, [ADA])])
    with rejected(Code.INCOMPLETE_UPDATE):
        typed(table, [update(None, {"id": 1, "name": "Eve"})])


def test_images_survive_when_partial_updates_begin_or_cease_to_be_completed(engine: sa.Engine, table: Table) -> None:
    stage(engine, [typed(table, [ADA])])
    both = registered(engine, "t", None, replace(KEEP, partial_updates=PartialUpdates.COMPLETE))
    assert both.images_complete
    stage(engine, [typed(both, [update(None, {"id": 1, "name": "Eve"})])])
    assert staged_batches(engine, both)[-1][0]["total"] is not None
    assert registered(engine, "t", None, KEEP).images_complete
    assert registered(engine, "t", None, COMPLETE).images_complete
    assert [image["name"] for image in stored_images(engine, table).values()] == ["Eve"]


def test_a_column_that_an_insert_did_not_give_is_still_unknown_when_partial_updates_are_completed_later(
    engine: sa.Engine, table: Table
) -> None:
    stage(engine, [typed(table, [insert({"id": 1, "name": "Ada"})])])
    both = registered(engine, "t", None, replace(KEEP, partial_updates=PartialUpdates.COMPLETE))
    with rejected() as rejection:
        stage(engine, [typed(both, [update(None, {"id": 1, "name": "Eve"})])])
    assert [column for _, _, _, column in rejection.places] == ["total"]


def test_images_that_begin_after_the_first_batch_are_recorded_as_incomplete_until_the_table_begins_anew(
    engine: sa.Engine,
) -> None:
    table = registered(engine, "t", SCHEMA)
    stage(engine, [typed(table, [ADA])])
    table = registered(engine, "t", None, KEEP)
    assert not table.images_complete
    stage(engine, [typed(table, [BOB])])
    assert stored_images(engine, table).keys() == {b"2"}
    assert stored_images(engine, registered(engine, "t", None, TableOptions())) == {}


def test_images_can_begin_before_the_first_batch(engine: sa.Engine) -> None:
    registered(engine, "t", SCHEMA)
    assert registered(engine, "t", None, KEEP).images_complete


IMAGES = 5
"""Images of a table of which one request deletes two."""


@pytest.fixture
def large(engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Give a table with too many images to delete in one request."""
    monkeypatch.setattr("app.staging.batches.row_images.MAX_DISCARDED_AT_ONCE", 2)
    before = registered(engine, "t", SCHEMA)
    stage(engine, [typed(before, [ADA])])
    table = registered(engine, "t", None, KEEP)
    stage(engine, [typed(table, [insert({"id": key, "name": "Ada", "total": None}, key) for key in range(IMAGES)])])
    return table


def test_images_that_are_kept_no_more_are_deleted_in_portions(engine: sa.Engine, large: Table) -> None:
    other = registered(engine, "other", SCHEMA, KEEP)
    stage(engine, [typed(other, [ADA])])
    registered(engine, "t", None, TableOptions())
    assert len(stored_images(engine, large)) == IMAGES - 2
    with rejected(Code.OLD_ROW_IMAGES):
        registered(engine, "t", None, KEEP)
    assert len(stored_images(engine, large)) == IMAGES - 2, "a rejected registration changes nothing"
    assert purge(engine, replace(WEEK, chunk_rows=2)).purged_images == IMAGES - 2
    assert not registered(engine, "t", None, KEEP).images_complete
    assert (stored_images(engine, large), len(stored_images(engine, other))) == ({}, 1)


def test_many_incomplete_images_cannot_begin_anew_in_one_request(engine: sa.Engine, large: Table) -> None:
    with rejected(Code.OLD_ROW_IMAGES):
        registered(engine, "t", None, COMPLETE)
    assert current(engine, "t") == large
    assert purge(engine, WEEK).purged_images == 0
    assert len(stored_images(engine, large)) == IMAGES
