"""Row images in Postgres: written with their batch, read under the lock, removed with their generation."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from random import Random

import pytest
import sqlalchemy as sa
from prometheus_client import REGISTRY

from app.domain.model.table import BatchSequence, Table
from app.domain.model.table_options import TableOptions
from app.domain.rows.row_image import StoredImage
from app.staging.batches.batch import Batch, Receipt, StagingRequest, TableMoved
from app.staging.batches.row_images import discard_row_images, read_row_images, write_row_images
from app.staging.batches.stage_transaction import stage_requests
from mirrorgate.errors import Code
from tests.support.gateway_parts import registered, running_writer, stage, together, typed
from tests.support.postgres import sql
from tests.support.rejections import rejected
from tests.support.samples.changes import delete, insert, update
from tests.support.samples.images import COMPLETE, count_row_images, staged_batches, stored_images
from tests.support.samples.schemas import schema_of
from tests.support.waiting import wait_until

NARROW = schema_of({"id": "int64", "name": "string"}, ["id"])
SCHEMA = schema_of({"id": "int64", "name": "string", "total": "decimal(9,2)"}, ["id"])
ADA = insert({"id": 1, "name": "Ada", "total": "1.5"})


@pytest.fixture
def table(engine: sa.Engine) -> Table:
    return registered(engine, "t", SCHEMA, COMPLETE)


def named(table: Table, name: str, key: int = 1) -> list[Batch]:
    return [typed(table, [update(None, {"id": key, "name": name})])]


def priced(table: Table, total: int, key: int = 1) -> list[Batch]:
    return [typed(table, [update(None, {"id": key, "total": total})])]


def test_requests_that_wait_together_see_what_those_before_them_leave(engine: sa.Engine, table: Table) -> None:
    together(engine, [typed(table, [ADA])], named(table, "Eve"), priced(table, 7), [typed(table, [delete({"id": 1})])])
    rows = [(row["name"], row["total"]) for [row] in staged_batches(engine, table)]
    assert rows == [("Ada", Decimal("1.50")), ("Eve", Decimal("1.50")), ("Eve", Decimal(7)), (None, None)]
    assert stored_images(engine, table) == {}


def test_a_request_that_no_image_completes_leaves_no_trace_and_its_neighbours_go_on(
    engine: sa.Engine, table: Table
) -> None:
    incomplete = typed(table, [insert({"id": 2, "name": "Bob"}, 0), update(None, {"id": 3, "name": "Cy"}, 1)])
    futures = together(engine, [typed(table, [ADA])], [incomplete], priced(table, 7, key=2), named(table, "Eve"))
    assert [future.result()[0].sequence for future in (futures[0], futures[3])] == [1, 2]
    for future, index, column in ((futures[1], 1, "total"), (futures[2], 0, "name")):
        with rejected(places=[(Code.INCOMPLETE_UPDATE, index, f"/after/{column}", column)]):
            future.result()
    assert list(stored_images(engine, table).values()) == [{"id": 1, "name": "Eve", "total": "1.5"}]


def test_a_request_typed_before_a_column_came_back_does_not_bring_its_old_values(engine: sa.Engine) -> None:
    table = registered(engine, "t", SCHEMA, COMPLETE)
    stage(engine, [typed(table, [ADA])])
    before = registered(engine, "t", NARROW)
    after = registered(engine, "t", SCHEMA)
    stale, incomplete = together(engine, named(before, "stale"), named(after, "Eve"))
    with pytest.raises(TableMoved):
        stale.result()
    with rejected(places=[(Code.INCOMPLETE_UPDATE, 0, "/after/total", "total")]):
        incomplete.result()


@pytest.mark.parametrize("rewritten", [False, True], ids=["image from before", "image from meanwhile"])
def test_a_column_that_left_and_came_back_is_not_taken_from_older_images(engine: sa.Engine, rewritten: bool) -> None:
    table = registered(engine, "t", SCHEMA, COMPLETE)
    stage(engine, [typed(table, [ADA])])
    without = registered(engine, "t", NARROW)
    if rewritten:
        stage(engine, named(without, "Eve"))
        assert staged_batches(engine, without)[-1] == [{"id": 1, "name": "Eve", "total": None, "__rowMarker__": 1}]
    back = registered(engine, "t", SCHEMA)
    with rejected(places=[(Code.INCOMPLETE_UPDATE, 0, "/after/total", "total")]):
        stage(engine, named(back, "Eve"))
    stage(engine, priced(back, 7), named(back, "Cy"))
    [last] = staged_batches(engine, back)[-1]
    assert (last["name"], last["total"]) == ("Cy", Decimal(7))


def test_images_that_would_fill_the_memory_are_not_read(
    engine: sa.Engine, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.staging.batches.row_images.MAX_COMPLETED_BYTES", 25_000)
    monkeypatch.setattr("app.staging.batches.row_images.MAX_IMAGES_PER_STATEMENT", 2)
    place = (table.table_id, table.generation)
    images = {bytes([number]): StoredImage(b"x" * 10_000, BatchSequence(number + 1)) for number in range(3)}
    with engine.begin() as connection:
        write_row_images(connection, *place, images)
        assert len(read_row_images(connection, *place, [*images][:2])) == 2
        with rejected() as rejection:
            read_row_images(connection, *place, list(images))
    assert rejection.code is Code.BODY_TOO_LARGE


def test_requests_that_complete_too_much_together_are_staged_apart(
    engine: sa.Engine, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.domain.rows.row_image.MAX_COMPLETED_BYTES", 2_500)
    stage(engine, [typed(table, [insert({"id": 1, "name": "x" * 1_000, "total": 1})])])
    twice = [update(None, {"id": 1, "total": number}, number) for number in range(2)]
    thrice = [*twice, update(None, {"id": 1, "total": 3}, 2)]
    *futures, too_large = together(engine, *[[typed(table, twice)]] * 3, [typed(table, thrice)])
    assert [future.result()[0].sequence for future in futures] == [2, 3, 4]
    with rejected(Code.BODY_TOO_LARGE):
        too_large.result()


def test_images_are_written_read_and_counted_in_pieces(
    engine: sa.Engine, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.staging.batches.row_images.MAX_IMAGES_PER_STATEMENT", 3)
    place = (table.table_id, table.generation)
    images = {bytes([number]): StoredImage(b"%d" % number, BatchSequence(number + 1)) for number in range(8)}
    changed = images | {b"\1": None, b"\7": None, b"\2": StoredImage(b"new", BatchSequence(9))}
    with engine.begin() as connection:
        write_row_images(connection, *place, images)
        assert read_row_images(connection, *place, [*images, b"nobody"]) == images
        write_row_images(connection, *place, changed)
        assert read_row_images(connection, *place, list(images)) == {k: v for k, v in changed.items() if v}
        assert count_row_images(connection, *place) == 6
        monkeypatch.setattr("app.staging.batches.row_images.MAX_DISCARDED_AT_ONCE", 4)
        assert [discard_row_images(connection, *place) for _ in range(2)] == [False, True]
        assert count_row_images(connection, *place) == 0


def test_images_that_were_read_are_replaced_at_their_places(engine: sa.Engine, table: Table) -> None:
    place = (table.table_id, table.generation)
    images = {bytes([number]): StoredImage(b"%d" % number, BatchSequence(number + 1)) for number in range(4)}
    changed = {
        b"\1": StoredImage(b'new, "1"', BatchSequence(9)),
        b"\2": None,
        b"\7": StoredImage(b"", BatchSequence(9)),
    }
    sql.call(engine, write_row_images, *place, images)
    places: dict[bytes, str] = {}
    with engine.begin() as connection:
        assert read_row_images(connection, *place, [b"\1", b"\2", b"\7"], places) == {
            key: images[key] for key in (b"\1", b"\2")
        }
        assert places.keys() == {b"\1", b"\2"}
        write_row_images(connection, *place, changed, places)
        assert read_row_images(connection, *place, [*images, *changed]) == {
            key: image for key, image in (images | changed).items() if image
        }
        with pytest.raises(RuntimeError, match="without the sequence lock"):
            write_row_images(connection, *place, changed, places)


@pytest.mark.parametrize("sampled", [1, 50])
def test_new_images_and_changed_ones_are_written_together(
    engine: sa.Engine, table: Table, monkeypatch: pytest.MonkeyPatch, sampled: int
) -> None:
    monkeypatch.setattr("app.staging.batches.row_images.MIN_INSERTED_IMAGES", 4)
    monkeypatch.setattr("app.staging.batches.row_images.MAX_IMAGES_PER_STATEMENT", 5)
    monkeypatch.setattr("app.staging.batches.row_images.SAMPLED_KEYS", sampled)
    place, random, model = (table.table_id, table.generation), Random(sampled), dict[bytes, StoredImage]()
    keys = [b"%d" % number for number in range(300)]
    with engine.begin() as connection:
        for sequence in range(1, 41):
            written: dict[bytes, StoredImage | None] = {
                key: StoredImage(random.randbytes(random.randrange(40)), sequence) if random.random() < 0.9 else None
                for key in random.sample(keys, random.randrange(12))
            }
            write_row_images(connection, *place, written)
            model = {key: image for key, image in (model | written).items() if image}
        assert read_row_images(connection, *place, keys) == model
        long = {bytes([255, number]): StoredImage(b"x" * 100_000, 2**40) for number in range(5)}
        write_row_images(connection, *place, long)
        assert read_row_images(connection, *place, list(long)) == long


def test_each_table_has_images_of_its_own(engine: sa.Engine, table: Table) -> None:
    twin = registered(engine, "twin", SCHEMA, COMPLETE)
    stage(engine, [typed(table, [ADA]), typed(twin, [ADA])], [typed(table, [delete({"id": 1})])])
    assert (len(stored_images(engine, table)), len(stored_images(engine, twin))) == (0, 1)


def test_a_table_that_rejects_partial_updates_keeps_no_images(engine: sa.Engine) -> None:
    table = registered(engine, "t", SCHEMA)
    stage(engine, [typed(table, [ADA])])
    assert stored_images(engine, table) == {}


def test_an_image_dies_with_the_transaction_of_its_batch(engine: sa.Engine, table: Table) -> None:
    with engine.connect() as connection, connection.begin() as transaction:
        stage_requests(connection, [StagingRequest([typed(table, [ADA])])], {})
        transaction.rollback()
    assert stored_images(engine, table) == {}


def staged_after(engine: sa.Engine, other: sa.Engine, first: Sequence[Batch], later: Sequence[Batch]) -> list[Receipt]:
    """Stage a request of another process that waits until the transaction of the first one commits."""
    with running_writer(other) as writer:
        with engine.connect() as connection, connection.begin() as transaction:
            stage_requests(connection, [StagingRequest(first)], {})
            future = writer.submit(StagingRequest(later))
            wait_until(lambda: sql.lock_waits(engine), within=30, what="the other writer waits for the lock")
            transaction.commit()
        return future.result(timeout=30)


def test_a_batch_that_waited_for_the_lock_is_completed_from_what_was_committed_meanwhile(
    engine: sa.Engine, other: sa.Engine, table: Table
) -> None:
    stage(engine, [typed(table, [ADA])])
    [receipt] = staged_after(engine, other, named(table, "Eve"), priced(table, 7))
    assert receipt.sequence == 3
    [last] = staged_batches(engine, table)[-1]
    assert (last["name"], last["total"]) == ("Eve", Decimal(7))


def test_a_deletion_committed_meanwhile_rejects_the_update_that_waited(
    engine: sa.Engine, other: sa.Engine, table: Table
) -> None:
    stage(engine, [typed(table, [ADA])])
    with rejected(places=[(Code.INCOMPLETE_UPDATE, 0, "/after/name", "name")]):
        staged_after(engine, other, [typed(table, [delete({"id": 1})])], priced(table, 7))


def test_a_request_over_two_tables_leaves_no_image_when_one_of_them_rejects(engine: sa.Engine, table: Table) -> None:
    twin = registered(engine, "twin", SCHEMA, COMPLETE)
    [future] = together(engine, [typed(table, [ADA]), *named(twin, "Eve")])
    with rejected():
        future.result()
    assert (stored_images(engine, table), stored_images(engine, twin)) == ({}, {})


def test_an_excluded_column_is_not_taken_from_older_images_when_it_is_let_in_again(engine: sa.Engine) -> None:
    table = registered(engine, "t", SCHEMA, COMPLETE)
    stage(engine, [typed(table, [ADA])])
    without = registered(engine, "t", None, replace(COMPLETE, exclude=("total",)))
    stage(engine, named(without, "Eve"))
    assert staged_batches(engine, without)[-1][0]["total"] is None
    back = registered(engine, "t", None, COMPLETE)
    with rejected() as rejection:
        stage(engine, named(back, "Cy"))
    assert [column for _, _, _, column in rejection.places] == ["total"]


def test_a_change_of_the_option_forgets_the_images_and_other_changes_keep_them(engine: sa.Engine, table: Table) -> None:
    stage(engine, [typed(table, [ADA])])
    registered(engine, "t", SCHEMA, replace(COMPLETE, sources=("s.t",)))
    assert len(stored_images(engine, table)) == 1
    registered(engine, "t", None, TableOptions())
    assert stored_images(engine, table) == {}
    again = registered(engine, "t", None, COMPLETE)
    with rejected():
        stage(engine, priced(again, 1))


def test_an_image_names_the_batch_that_wrote_it(engine: sa.Engine, table: Table) -> None:
    stage(engine, [typed(table, [ADA, insert({"id": 2, "name": "Bob"})])], priced(table, 3))
    rows = sql.rows(engine, "SELECT row_key, sequence FROM mirrorgate.row_images ORDER BY row_key")
    assert rows == [(b"1", 2), (b"2", 1)]


def test_an_insert_of_a_key_that_has_a_row_is_staged_as_an_upsert(engine: sa.Engine, table: Table) -> None:
    before = REGISTRY.get_sample_value("mirrorgate_repeated_inserts_total") or 0
    other = insert({"id": 2, "name": "Bob", "total": None})
    stage(engine, [typed(table, [ADA])])
    together(engine, [typed(table, [other])], [typed(table, [ADA, other])])
    assert [[row["__rowMarker__"] for row in batch] for batch in staged_batches(engine, table)] == [[0], [0], [4, 4]]
    assert REGISTRY.get_sample_value("mirrorgate_repeated_inserts_total") == before + 2
