"""The size of row images: counted while they are few, estimated when they are many."""

import pytest
import sqlalchemy as sa

from app.domain.model.table import BatchSequence, Table
from app.domain.rows.row_image import StoredImage
from app.staging.batches.row_images import write_row_images
from app.staging.tables.status import ImagesSize, all_images, image_sizes
from tests.support.gateway_parts import registered, stage, typed
from tests.support.postgres import sql
from tests.support.samples.changes import insert
from tests.support.samples.images import KEEP
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "name": "string"}, ["id"])


def size_of(engine: sa.Engine, table: Table) -> ImagesSize:
    return sql.call(engine, image_sizes, [table.table_id])[table.table_id]


def write(engine: sa.Engine, table: Table, count: int) -> None:
    images = {b"%d" % key: StoredImage(b"x" * 200, BatchSequence(1)) for key in range(count)}
    sql.call(engine, write_row_images, table.table_id, table.generation, images)


def test_few_images_are_counted_table_by_table(engine: sa.Engine) -> None:
    table, other = registered(engine, "t", SCHEMA, KEEP), registered(engine, "other", SCHEMA, KEEP)
    assert size_of(engine, table) == ImagesSize(is_complete=True, rows=0, is_exact=True, bytes=0)
    write(engine, table, 7)
    write(engine, other, 3)
    found = size_of(engine, table)
    assert (found.rows, found.is_exact) == (7, True)
    assert found.bytes >= 7 * 200
    assert size_of(engine, other).rows == 3


def test_many_images_are_estimated_near_what_postgres_has_on_disk(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.staging.tables.status.MAX_COUNTED", 100)
    table, other = registered(engine, "t", SCHEMA, KEEP), registered(engine, "other", SCHEMA, KEEP)
    write(engine, table, 6_000)
    write(engine, other, 2_000)
    assert size_of(engine, table).rows == 101  # no statistics yet
    sql.run(engine, "ANALYZE mirrorgate.row_images")
    found = size_of(engine, table)
    assert found.rows == pytest.approx(6_000, rel=0.05)
    assert not found.is_exact
    everything = sql.call(engine, all_images)
    assert everything.rows == 8_000
    assert found.bytes + size_of(engine, other).bytes == pytest.approx(everything.bytes, rel=0.25)


def test_a_table_that_began_to_keep_images_later_is_not_complete(engine: sa.Engine) -> None:
    table = registered(engine, "t", SCHEMA)
    stage(engine, [typed(table, [insert({"id": 1, "name": "Ada"})])])
    assert not size_of(engine, registered(engine, "t", None, KEEP)).is_complete
