"""Completing changes of a source that had other columns then, and rows that a source may or may not have had."""

import msgspec
import pytest

from app.domain.model.change import Change, Image, Operation
from app.domain.model.table import BatchSequence
from app.domain.rows.image_overlay import ImageOverlay
from app.domain.rows.row_image import StoredImage, decode_image
from app.errors import Code
from tests.domain.rows.images.test_image_overlay import ADA, BOB, CY, complete, landed, stored, table_with
from tests.support.rejections import rejected
from tests.support.samples.changes import change, insert, update


def without_name(given: Change, *, is_late: bool = False) -> Change:
    """Return the change as a source without the column `name` wrote it; late if the source has it by now."""
    return msgspec.structs.replace(given, source_columns=frozenset({"id", "total"}), is_late=is_late)


def merge(after: Image) -> Change:
    return change(Operation.MERGE, None, after)


def test_a_completed_row_does_not_know_a_column_that_its_source_did_not_have_then() -> None:
    overlay = ImageOverlay(table_with(), stored(table_with(), [insert(ADA)]))
    rows, layer = complete(overlay, [without_name(update(None, {"id": 1}))])
    assert [row["name"] for row in rows] == [None]
    assert [decode_image(image) for image in layer.values() if image] == [{0: 1, 2: "1.5"}]


def test_a_late_change_keeps_what_the_image_knows_of_a_column_that_has_come_since() -> None:
    overlay = ImageOverlay(table_with(), stored(table_with(), [insert(ADA)]))
    for is_late, name in ((True, "Ada"), (False, None)):
        rows, _ = complete(overlay, [without_name(update(None, {"id": 1, "total": 2}), is_late=is_late)])
        assert [row["name"] for row in rows] == [name]


def test_a_merge_inserts_a_row_of_a_new_key_if_every_row_has_an_image() -> None:
    overlay = ImageOverlay(table_with(images_complete=True), stored(table_with(), [insert(ADA)]))
    rows, layer = complete(overlay, [merge({"id": 2, "name": "Bob"}), merge({"id": 1, "name": "Eve"})])
    assert [tuple(map(str, row.values())) for row in rows] == [("2", "Bob", "None", "4"), ("1", "Eve", "1.50", "4")]
    assert [*layer.values()] == [b'[2,"Bob",null]', b'[1,"Eve","1.5"]']
    in_parts = ImageOverlay(overlay.table, {b"1": StoredImage(b'{"-1":3,"0":1,"1":"Ada"}', BatchSequence(1))})
    for unknown in (in_parts, ImageOverlay(table_with(), {})):
        with rejected() as rejection:
            complete(unknown, [merge({"id": 1, "name": "Eve"})])
        assert [(code, column) for code, _, _, column in rejection.places] == [(Code.INCOMPLETE_UPDATE, "total")]


def test_an_image_that_does_not_know_a_column_that_came_back_completes_the_others() -> None:
    images = {b"1": StoredImage(b'{"0":1,"2":"1.5"}', BatchSequence(4))}
    overlay = ImageOverlay(table_with(late_columns={"name": BatchSequence(5)}), images)
    rows, _ = complete(overlay, [update(None, {"id": 1, "name": "Eve"})])
    assert [(row["name"], str(row["total"])) for row in rows] == [("Eve", "1.50")]


def test_a_key_change_onto_a_key_of_the_same_batch_is_rejected() -> None:
    with rejected() as rejection:
        landed([insert(CY), update({**BOB}, {**BOB, "id": 3}, 7)], after=[insert(BOB)])
    assert rejection.places == [(Code.KEY_IN_USE, 7, "/after/id", "id")]


@pytest.mark.parametrize(("total", "order"), [("1.50", [1, 2, 2, 3]), ("1.51", [1, 2, 2, 3])])
def test_typed_values_tell_a_row_that_moves_twice_from_two_rows(total: str, order: list[int]) -> None:
    moves = [update(ADA, {**ADA, "id": 2}), update({**ADA, "id": 2, "total": total}, {**ADA, "id": 3, "total": total})]
    rows = landed(moves)
    assert [row[0] for row in rows] == order
    assert [row[-1] for row in rows] == ([2, 0, 2, 0] if total == "1.50" else [2, 2, 0, 0])


def test_a_move_that_cannot_be_completed_leaves_the_row_that_has_its_old_key_now() -> None:
    images = {b"1": b'{"0":1,"1":"Ada"}', b"2": b'[2,"Bob",7]'}
    overlay = ImageOverlay(table_with(), {key: StoredImage(image, BatchSequence(1)) for key, image in images.items()})
    swap = [update({"id": 2}, {"id": 1}, 0), update({"id": 1}, {"id": 2, "name": "x"}, 1)]
    with rejected() as rejection:
        complete(overlay, [*swap, update(None, {"id": 1, "name": "y"}, 2)])
    assert [(index, column) for _, index, _, column in rejection.places] == [(1, "total")]
