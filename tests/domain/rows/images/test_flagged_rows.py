"""What a table with `deletes=flag` lands for each kind of change, and the images that it leaves."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from app.domain.model.change import Change
from app.domain.model.landing_schema import with_landing
from app.domain.model.names import TableName
from app.domain.model.projection import AuditColumns, Deletes
from app.domain.model.table import BatchSequence, Generation, Table, TableId, TableState
from app.domain.model.table_options import PartialUpdates, RowImages, TableOptions
from app.domain.model.table_schema import SchemaVersion
from app.domain.rows.image_overlay import ImageOverlay
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_image import StoredImage, TooMuchTogether, encode_image
from app.domain.rows.row_rules import RowRules
from app.errors import Code
from tests.support.rejections import rejected
from tests.support.samples.changes import delete, insert, update, upsert
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "name": "string", "total": "int64"}, ["id"], required=["id"])
OPTIONS = TableOptions(audit_columns=AuditColumns(deleted="gone"), deletes=Deletes.FLAG, row_images=RowImages.ON)
PLACE = (TableId(1), TableName.parse("t"), Generation(1), TableState.ACTIVE, SchemaVersion(1))
FLAGGING = Table(*PLACE, with_landing(SCHEMA, OPTIONS), OPTIONS)
COMPLETING = replace(FLAGGING, options=replace(OPTIONS, partial_updates=PartialUpdates.COMPLETE))


def row(key: int, name: str = "x", total: int | None = 1) -> dict[str, Any]:
    return {"id": key, "name": name, "total": total}


def overlay_with(*batches: Sequence[Change], table: Table = FLAGGING) -> ImageOverlay:
    """Return an overlay that earlier batches have left."""
    overlay = ImageOverlay(table, {})
    for number, changes in enumerate(batches, 1):
        overlay.adopt(overlay.complete(landing_rows(changes, RowRules.of(table)))[1], BatchSequence(number))
    return overlay


def landed(overlay: ImageOverlay, changes: Sequence[Change]) -> tuple[list[tuple[Any, ...]], int]:
    """Return the rows as they land with their markers, and how many inserts became upserts."""
    rows, _ = overlay.complete(landing_rows(changes, RowRules.of(overlay.table)))
    rows.batch.validate(full=True)
    names = [*SCHEMA.names, "__rowMarker__"]
    return [tuple(one[name] for name in names) for one in rows.batch.to_pylist()], rows.repeated_inserts


PRESENT, DELETED = [insert(row(1)), insert(row(2, "y"))], [delete({"id": 1})]


@pytest.mark.parametrize(
    ("changes", "rows", "repeated"),
    [
        ([delete({"id": 2})], [(2, "y", 1, 1)], 0),
        ([delete({"id": 1})], [(1, "x", 1, 1)], 0),
        ([delete({"id": 7})], [(7, None, None, 2)], 0),
        ([insert(row(1, "new"))], [(1, "new", 1, 4)], 1),
        ([upsert(row(1, "new"))], [(1, "new", 1, 4)], 0),
        ([update({"id": 1}, row(1, "new"))], [(1, "new", 1, 1)], 0),
        ([update({"id": 2}, row(3, "new"))], [(2, "y", 1, 1), (3, "new", 1, 0)], 0),
        ([update({"id": 2}, row(1, "new"))], [(2, "y", 1, 1), (1, "new", 1, 4)], 1),
        ([insert(row(3)), delete({"id": 3})], [(3, "x", 1, 0), (3, "x", 1, 1)], 0),
        (
            [delete({"id": 2}), insert(row(2, "new")), delete({"id": 2})],
            [(2, "y", 1, 1), (2, "new", 1, 4), (2, "new", 1, 1)],
            1,
        ),
        (
            [insert(row(3)), delete({"id": 7}), delete({"id": 2})],
            [(3, "x", 1, 0), (7, None, None, 2), (2, "y", 1, 1)],
            0,
        ),
    ],
    ids=[
        "delete",
        "delete again",
        "delete of a key without a row",
        "insert of a deleted key",
        "upsert of a deleted key",
        "update of a deleted key",
        "changed key",
        "changed key onto a deleted one",
        "insert and delete",
        "delete, insert and delete",
        "other rows beside a delete",
    ],
)
def test_a_deleted_row_stays_with_its_last_values(
    changes: list[Change], rows: list[tuple[Any, ...]], repeated: int
) -> None:
    assert landed(overlay_with(PRESENT, DELETED), changes) == (rows, repeated)


def test_an_image_says_that_its_row_is_deleted_until_the_row_returns() -> None:
    overlay = overlay_with(PRESENT, DELETED)
    stored = {key: image and image.image for key, image in overlay.written.items()}
    assert stored == {b"1": b'{"-2":true,"-1":3,"0":1,"1":"x","2":1}', b"2": b'[2,"y",1]'}
    assert [overlay.is_live(key) for key in (b"1", b"2", b"7")] == [False, True, None]
    assert [overlay.is_mirrored(key) for key in (b"1", b"2", b"7")] == [True, True, False]
    again = overlay_with(PRESENT, DELETED, [*DELETED, delete({"id": 7})])
    assert {key: image and image.image for key, image in again.written.items()} == stored | {b"7": None}
    assert again.is_live(b"7") is again.is_mirrored(b"7") is False
    back = overlay_with(PRESENT, DELETED, [upsert(row(1, "new"))])
    assert back.is_live(b"1") is True


def test_stored_images_and_keys_count_as_those_of_this_transaction() -> None:
    gone = StoredImage(encode_image([1, "x", None], is_deleted=True), BatchSequence(1))
    overlay = ImageOverlay(FLAGGING, {b"1": gone}, {b"5"})
    assert [overlay.is_live(key) for key in (b"1", b"5", b"6")] == [False, True, None]
    assert [overlay.is_mirrored(key) for key in (b"1", b"5", b"6")] == [True, True, False]
    assert landed(overlay, [delete({"id": 1})]) == ([(1, "x", None, 1)], 0)
    assert landed(overlay, [insert(row(1)), insert(row(5))]) == ([(1, "x", 1, 4), (5, "x", 1, 4)], 2)


def test_nothing_completes_a_partial_update_of_a_deleted_row() -> None:
    partial = update(None, {"id": 1, "total": 2})
    for overlay, changes in (
        (overlay_with(PRESENT, DELETED, table=COMPLETING), [partial]),
        (overlay_with(PRESENT, table=COMPLETING), [*DELETED, partial]),
    ):
        with rejected() as rejection:
            landed(overlay, changes)
        assert [place[0] for place in rejection.places] == [Code.INCOMPLETE_UPDATE]
    assert landed(overlay_with(PRESENT, table=COMPLETING), [partial]) == ([(1, "x", 2, 1)], 0)


def test_rows_that_move_at_once_are_flagged_under_their_old_keys() -> None:
    swap = [update(row(1), row(2)), update(row(2, "y"), row(1, "y"))]
    rows, repeated = landed(overlay_with(PRESENT), swap)
    assert rows == [(1, "x", 1, 1), (2, "y", 1, 1), (2, "x", 1, 4), (1, "y", 1, 4)]
    assert repeated == 2


def test_images_of_deleted_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    overlay = overlay_with([insert(row(key, "x" * 100)) for key in range(4)])
    monkeypatch.setattr("app.domain.rows.row_image.MAX_COMPLETED_BYTES", 300)
    with rejected() as rejection:
        landed(overlay, [delete({"id": key}) for key in range(3)])
    assert rejection.code is Code.BODY_TOO_LARGE
    assert overlay.completed.size == 0
    for key in (0, 1):
        landed(overlay, [delete({"id": key})])
    with pytest.raises(TooMuchTogether):
        landed(overlay, [delete({"id": 2})])
