"""Row images complete partial updates, also those of older sources and many at once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.change import Change, Image, Operation, SourceValue
from app.domain.model.table import BatchSequence, Table
from app.domain.model.table_options import PartialUpdates, TableOptions
from app.domain.model.table_schema import TableSchema
from app.domain.rows import image_overlay
from app.domain.rows.image_overlay import ImageOverlay, Layer
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_image import StoredImage, TooMuchTogether, decode_image
from app.domain.rows.row_rules import RowRules
from mirrorgate.errors import Code, RejectedInput
from tests.support.rejections import rejected
from tests.support.samples.changes import change, delete, insert, update, upsert
from tests.support.samples.schemas import active_table, schema_of

COMPLETE: Final = TableOptions(partial_updates=PartialUpdates.COMPLETE)
NARROW: Final = schema_of({"id": "int64", "name": "string"}, ["id"], required=["id"])
SCHEMA: Final = schema_of({"id": "int64", "name": "string", "total": "decimal(9,2)"}, ["id"], required=["id"])
ADA: Final[Image] = {"id": 1, "name": "Ada", "total": "1.5"}
BOB: Final[Image] = {"id": 2, "name": "Bob", "total": None}
CY: Final[Image] = {"id": 3, "name": None, "total": None}


def without_name(given: Change, *, is_late: bool = False) -> Change:
    """Return the change as a source without the column `name` wrote it; late if the source has it by now."""
    return msgspec.structs.replace(given, source_columns=frozenset({"id", "total"}), is_late=is_late)


def table_with(schema: TableSchema = SCHEMA, **members: Any) -> Table:
    return active_table(schema, COMPLETE, **members)


def complete(overlay: ImageOverlay, changes: Sequence[Change]) -> tuple[list[dict[str, Any]], Layer]:
    """Return the rows as they land, and what the batch leaves."""
    rows, layer = overlay.complete(landing_rows(changes, RowRules.of(overlay.table)))
    rows.batch.validate(full=True)
    return rows.batch.to_pylist(), layer


def landed(changes: Sequence[Change], *, after: Sequence[Change] = (), table: Table | None = None) -> list[Any]:
    """Return the landing rows of a batch that follows another one, as tuples."""
    overlay = ImageOverlay(table or table_with(), {})
    overlay.adopt(complete(overlay, after)[1], BatchSequence(1))
    return [tuple(row.values()) for row in complete(overlay, changes)[0]]


def stored(table: Table, changes: Sequence[Change], sequence: int = 1) -> Mapping[bytes, StoredImage]:
    """Return the images that a batch leaves under its `sequence`."""
    overlay = ImageOverlay(table, {})
    overlay.adopt(complete(overlay, changes)[1], BatchSequence(sequence))
    return {key: image for key, image in overlay.written.items() if image is not None}


ADA_NOW, BOB_NOW = (1, "Ada", Decimal("1.50")), (2, "Bob", None)


@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        ([update(None, {"id": 1, "name": "Eve"})], [(1, "Eve", Decimal("1.50"), 1)]),
        ([update({"id": "1"}, {"id": "01", "total": None})], [(1, "Ada", None, 1)]),
        ([update(None, {"id": 1})], [(*ADA_NOW, 1)]),
        ([update(None, {"id": 2, "name": "Eve"})], [(2, "Eve", None, 1)]),
        ([update({"id": 1}, {"id": 9})], [(1, None, None, 2), (9, *ADA_NOW[1:], 0)]),
        (
            [update({"id": 1}, {"id": 9, "total": 3}), update(None, {"id": 9, "name": "Eve"})],
            [(1, None, None, 2), (9, "Ada", Decimal(3), 0), (9, "Eve", Decimal(3), 1)],
        ),
        (
            [update(None, {"id": 1, "total": 7}), update(None, {"id": 1, "name": "Eve"})],
            [(1, "Ada", Decimal(7), 1), (1, "Eve", Decimal(7), 1)],
        ),
        (
            [delete({"id": 1}), insert({"id": 1, "name": "New"}), update(None, {"id": 1, "total": 2})],
            [(1, None, None, 2), (1, "New", None, 0), (1, "New", Decimal(2), 1)],
        ),
        (
            [upsert({"id": 3, "name": "Cy", "total": 1}), update(None, {"id": 3, "name": "Di"})],
            [(3, "Cy", Decimal(1), 4), (3, "Di", Decimal(1), 1)],
        ),
        (
            [update({"id": 1}, {"id": 9}), update({"id": 2}, {"id": 1}), update({"id": 9}, {"id": 2})],
            [
                (1, None, None, 2),
                (9, *ADA_NOW[1:], 0),
                (2, None, None, 2),
                (1, *BOB_NOW[1:], 0),
                (9, None, None, 2),
                (2, *ADA_NOW[1:], 0),
            ],
        ),
        (
            [update({"id": 1}, {"id": 2}), update({"id": 2}, {"id": 1})],
            [(1, None, None, 2), (2, None, None, 2), (2, *ADA_NOW[1:], 0), (1, *BOB_NOW[1:], 0)],
        ),
    ],
    ids=[
        "one column changed",
        "another spelling of the key",
        "nothing changed",
        "NULL in the image",
        "only the key changed",
        "key changed and then updated",
        "two updates of one row",
        "deleted and inserted again",
        "upserted and updated",
        "two rows exchange their keys by a third one",
        "two rows swap their keys at once",
    ],
)
def test_a_partial_update_lands_as_the_full_row(changes: list[Change], rows: list[tuple[Any, ...]]) -> None:
    assert landed(changes, after=[insert(ADA), insert(BOB)]) == rows


@pytest.mark.parametrize(
    ("changes", "index", "columns"),
    [
        ([update(None, {"id": 3, "name": "Eve"}, 0)], 0, ["total"]),
        ([update(None, {"id": 3}, 0)], 0, ["name", "total"]),
        ([delete({"id": 1}, 0), update(None, {"id": 1, "name": "Eve"}, 1)], 1, ["total"]),
        ([update({"id": 1}, {"id": 9}, 0), update(None, {"id": 1, "total": 2}, 1)], 1, ["name"]),
        ([delete({"id": 1}, 0), update({"id": 1}, {"id": 9, "total": 2}, 1)], 1, ["name"]),
    ],
    ids=["unknown row", "unknown row and nothing new", "deleted", "moved away", "moved after delete"],
)
def test_a_partial_update_without_an_image_is_rejected_by_column(
    changes: list[Change], index: int, columns: list[str]
) -> None:
    with rejected() as rejection:
        landed(changes, after=[insert(ADA), insert(BOB)])
    assert rejection.places == [(Code.INCOMPLETE_UPDATE, index, f"/after/{column}", column) for column in columns]
    assert {*rejection.details} == {"the new value is not given, and no row image has the old one"}


def test_a_batch_that_is_not_adopted_changes_no_image() -> None:
    overlay = ImageOverlay(table_with(), stored(table_with(), [insert(ADA)]))
    complete(overlay, [update(None, {"id": 1, "name": "Eve"}), delete({"id": 1})])
    rows, _ = complete(overlay, [update(None, {"id": 1, "total": 2})])
    assert [row["name"] for row in rows] == ["Ada"]


def test_partial_updates_of_a_long_row_are_rejected_before_they_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hundred bytes a message become a megabyte a row."""
    monkeypatch.setattr("app.domain.rows.row_image.MAX_COMPLETED_BYTES", 10_500)
    overlay = ImageOverlay(table_with(), stored(table_with(), [insert({"id": 1, "name": "x" * 1_000, "total": 1})]))
    changes = [update(None, {"id": 1, "total": number}, number) for number in range(20)]
    with rejected() as rejection:
        complete(overlay, changes)
    assert (rejection.code, overlay.completed.size) == (Code.BODY_TOO_LARGE, 0)
    complete(overlay, changes[:6])
    with pytest.raises(TooMuchTogether):
        complete(overlay, changes[:6])


def test_a_deleted_row_is_unknown_to_the_next_batch_although_its_image_is_stored() -> None:
    overlay = ImageOverlay(table_with(), stored(table_with(), [insert(ADA)]))
    overlay.adopt(complete(overlay, [delete({"id": 1})])[1], BatchSequence(2))
    with rejected():
        complete(overlay, [update(None, {"id": 1, "total": 2})])


def test_a_column_newer_than_the_image_completes_with_null_as_the_mirrored_row_has_it() -> None:
    overlay = ImageOverlay(table_with(), stored(table_with(NARROW), [insert({"id": 1, "name": "Ada"})]))
    rows, layer = complete(overlay, [update(None, {"id": 1, "name": "Eve"})])
    assert [tuple(row.values()) for row in rows] == [(1, "Eve", None, 1)]
    assert [decode_image(image) for image in layer.values() if image] == [{0: 1, 1: "Eve", 2: None}]
    rows, _ = complete(overlay, [update(None, {"id": 1, "total": 2}), update(None, {"id": 1, "name": "Eve"})])
    assert [(row["name"], row["total"]) for row in rows] == [("Ada", Decimal(2)), ("Eve", Decimal(2))]


def test_a_column_newer_than_an_image_with_unknown_columns_completes_with_null() -> None:
    older = table_with(schema_of({"id": "int64", "name": "string", "city": "string"}, ["id"], ["id"]))
    newer = table_with(schema_of({"id": "int64", "name": "string", "city": "string", "total": "int64"}, ["id"], ["id"]))
    overlay = ImageOverlay(newer, stored(older, [insert({"id": 1, "name": "Ada"})]))
    rows, _ = complete(overlay, [update(None, {"id": 1, "city": "Rome"})])
    assert [tuple(row.values()) for row in rows] == [(1, "Ada", "Rome", None, 1)]
    with rejected(places=[(Code.INCOMPLETE_UPDATE, 0, "/after/city", "city")]):
        complete(overlay, [update(None, {"id": 1, "total": 2})])


def test_an_image_of_an_earlier_program_with_unknown_columns_stays_unknown_beyond_them() -> None:
    overlay = ImageOverlay(table_with(), {b"1": StoredImage(b'{"0":1,"2":"1.5"}', BatchSequence(1))})
    with rejected() as rejection:
        complete(overlay, [update(None, {"id": 1, "total": 2})])
    assert [column for _, _, _, column in rejection.places] == ["name"]


def test_all_updates_that_nothing_completes_are_named_at_once_and_leave_nothing() -> None:
    overlay = ImageOverlay(table_with(), {})
    partial = [update(None, {"id": 3, "total": 1}, 0), update(None, {"id": 3, "name": "x"}, 1)]
    with rejected() as rejection:
        complete(overlay, [*partial, insert(CY, 2), update(None, {"id": 3}, 3), update(None, {"id": 8, "name": ""}, 4)])
    assert [(index, column) for _, index, _, column in rejection.places] == [(0, "name"), (1, "total"), (4, "total")]
    assert overlay.written == {}


def test_a_move_that_cannot_be_completed_leaves_the_row_under_its_old_key_to_the_changes_behind_it() -> None:
    overlay = ImageOverlay(table_with(), {b"1": StoredImage(b'{"0":1,"1":"Ada"}', BatchSequence(1))})
    of_layer = without_name(insert({"id": 2, "total": 1}))
    moves = [update({"id": 1}, {"id": 8, "name": "x"}, 1), update({"id": 2}, {"id": 9, "total": 3}, 2)]
    behind = [update(None, {"id": 1, "total": 2}, 3), update(None, {"id": 2, "name": "Bob"}, 4)]
    with rejected() as rejection:
        complete(overlay, [of_layer, *moves, *behind])
    assert [(index, column) for _, index, _, column in rejection.places] == [(1, "total"), (2, "name")]


def test_an_insert_that_does_not_give_a_column_lands_null_and_leaves_it_unknown() -> None:
    overlay = ImageOverlay(table_with(), {})
    rows, layer = complete(overlay, [insert({"id": 1, "name": "Ada"})])
    assert [tuple(row.values()) for row in rows] == [(1, "Ada", None, 0)]
    overlay.adopt(layer, BatchSequence(1))
    with rejected(places=[(Code.INCOMPLETE_UPDATE, 0, "/after/total", "total")]):
        complete(overlay, [update(None, {"id": 1, "name": "Eve"})])
    rows, _ = complete(overlay, [update(None, {"id": 1, "total": 2}), update(None, {"id": 1, "name": "Eve"})])
    assert [tuple(row.values()) for row in rows] == [(1, "Ada", Decimal(2), 1), (1, "Eve", Decimal(2), 1)]


@pytest.mark.parametrize("shift", [[(1, 2), (2, 3)], [(2, 3), (1, 2)]], ids=["ascending", "descending"])
def test_a_shift_of_keys_moves_each_rows_own_values(shift: list[tuple[int, int]]) -> None:
    moves = [update({"id": old}, {"id": new}) for old, new in shift]
    rows = landed(moves, after=[insert(ADA), insert(BOB)])
    assert sorted(row for row in rows if row[-1] == 0) == [(2, *ADA_NOW[1:], 0), (3, *BOB_NOW[1:], 0)]


@pytest.mark.parametrize(
    "before",
    [[insert(ADA), insert(BOB)], [insert(BOB), update({"id": 2}, {"id": 1, "name": "Ada"}), insert(BOB)]],
    ids=["inserted", "moved there"],
)
def test_a_key_change_onto_a_key_that_another_row_has_is_rejected(before: list[Change]) -> None:
    for earlier, present in (([], before), (before, [])):
        with rejected(places=[(Code.KEY_IN_USE, 7, "/after/id", "id")]):
            landed([*earlier, update({**BOB}, {**BOB, "id": 1}, 7)], after=present)
    assert landed([delete({"id": 1}), update({**BOB}, {**BOB, "id": 1})], after=before)[-1] == (1, "Bob", None, 0)


def test_rows_without_an_image_leave_a_key_change_ambiguous() -> None:
    moves = [update({"id": 1}, {**ADA, "id": 2}, 0), update({"id": 2}, {**BOB, "id": 3}, 1)]
    with rejected() as rejection:
        landed(moves)
    assert {(code, index) for code, index, _, _ in rejection.places} == {
        (Code.AMBIGUOUS_KEY_CHANGE, 0),
        (Code.AMBIGUOUS_KEY_CHANGE, 1),
    }


@pytest.mark.parametrize(
    ("again", "markers"),
    [([insert(CY)], [4]), ([insert(BOB), insert(CY)], [0, 4]), ([insert(CY), update(CY, CY), insert(BOB)], [4, 1, 0])],
)
def test_an_insert_of_a_key_that_has_a_row_lands_as_an_upsert_and_is_counted(
    again: list[Change], markers: list[int]
) -> None:
    overlay = ImageOverlay(table_with(), {})
    overlay.adopt(complete(overlay, [insert(CY)])[1], BatchSequence(1))
    rows, _ = overlay.complete(landing_rows(again, RowRules.of(overlay.table)))
    assert [row["__rowMarker__"] for row in rows.batch.to_pylist()] == markers
    assert rows.repeated_inserts == 1


def test_a_move_that_cannot_be_completed_is_told_before_what_it_does_to_later_key_changes() -> None:
    overlay = ImageOverlay(table_with(), {b"0": StoredImage(b'{"-1":3,"0":0}', BatchSequence(1))}, {b"1"})
    moves = [update({"id": old}, {"id": new, "total": 1}, at) for at, (old, new) in enumerate([(0, 3), (1, 0), (3, 1)])]
    with rejected() as rejection:
        complete(overlay, moves)
    assert rejection.places[0] == (Code.INCOMPLETE_UPDATE, 0, "/after/name", "name")


@pytest.mark.parametrize(
    "older", [insert({"id": 1, "total": 1}), update(None, {"id": 1, "total": 1})], ids=["insert", "update"]
)
def test_a_column_that_the_source_did_not_have_then_lands_null_and_is_unknown_to_the_image(older: Change) -> None:
    overlay = ImageOverlay(table_with(), {})
    rows, layer = complete(overlay, [without_name(older), update(None, {"id": 1, "name": "x"})])
    assert [(row["name"], row["total"]) for row in rows] == [(None, Decimal(1)), ("x", Decimal(1))]
    assert [decode_image(image) for image in layer.values() if image] == [{0: 1, 1: "x", 2: 1}]
    with rejected(places=[(Code.INCOMPLETE_UPDATE, 1, "/after/name", "name")]):
        complete(overlay, [without_name(older), update(None, {"id": 1, "total": 2}, 1)])


def test_a_column_that_left_the_source_lands_null() -> None:
    overlay = ImageOverlay(table_with(left_columns=frozenset({"name"})), stored(table_with(), [insert(ADA)]))
    rows, layer = complete(overlay, [update(None, {"id": 1})])
    assert [tuple(row.values()) for row in rows] == [(1, None, Decimal("1.50"), 1)]
    assert [decode_image(image) for image in layer.values() if image] == [{0: 1, 1: None, 2: "1.5"}]


@pytest.mark.parametrize(("written", "known"), [(4, False), (5, False), (6, True)])
def test_a_column_that_came_back_is_known_only_to_images_written_since(written: int, known: bool) -> None:
    images = stored(table_with(), [insert(ADA)], written)
    overlay = ImageOverlay(table_with(late_columns={"name": BatchSequence(5)}), images)
    partial = [update(None, {"id": 1, "total": 2})]
    if known:
        assert complete(overlay, partial)[0][0]["name"] == "Ada"
    else:
        with rejected() as rejection:
            complete(overlay, partial)
        assert [column for _, _, _, column in rejection.places] == ["name"]
    overlay.adopt(complete(overlay, [update(None, {"id": 1, "name": "Eve"})])[1], BatchSequence(written + 2))
    assert complete(overlay, partial)[0][0]["name"] == "Eve"


EVERY_TYPE: Final[dict[str, list[SourceValue]]] = {
    "boolean": [True, "0", None],
    "int16": ["7", -1, None],
    "int32": [2**31 - 1, Decimal("1E+2"), None],
    "int64": [2**63 - 1, str(-(2**63)), None],
    "float32": ["0.1", "NaN", Decimal("1.5"), None],
    "float64": ["-0.0", 2**70, "Infinity", None],
    "decimal(38,2)": ["9" * 36, 10**35, Decimal("1.5E-1"), None],
    "date": ["2024-02-29", None],
    "timestamp": ["2024-10-27 02:30:00", "2024-02-29T01:02:03.000001+14:00", None],
    "string": ["", "null", 'a"\\\n', Decimal("1.50"), True, None],
    "binary": ["", "0AfF", None],
    "json": ['{"a": 1}', {"b": [Decimal("1.0"), None], "a": 2**70}, [], None],
}
OPTIONS: Final = replace(COMPLETE, source_timezone="Europe/Berlin")
ALL_TYPES: Final = replace(
    table_with(schema_of({"id": "int64"} | {name: name for name in EVERY_TYPE}, ["id"])), options=OPTIONS
)


@given(
    rows=st.lists(
        st.fixed_dictionaries({name: st.sampled_from(values) for name, values in EVERY_TYPE.items()}), max_size=4
    ),
    given_columns=st.sets(st.sampled_from(sorted(EVERY_TYPE))),
)
def test_values_from_an_image_land_as_they_landed_when_they_came(rows: list[Image], given_columns: set[str]) -> None:
    full = [update(None, {"id": number, **row}) for number, row in enumerate(rows)]
    partial = [
        update(None, {"id": number, **{name: row[name] for name in given_columns}}) for number, row in enumerate(rows)
    ]
    overlay = ImageOverlay(ALL_TYPES, {})
    expected, layer = complete(overlay, full)
    overlay.adopt(layer, BatchSequence(1))
    completed, again = complete(overlay, partial)
    assert repr(completed) == repr(expected)
    assert [decode_image(image) for image in again.values() if image] == [
        decode_image(image) for image in layer.values() if image
    ]


def merge(after: Image) -> Change:
    return change(Operation.MERGE, None, after)


def test_a_completed_row_does_not_know_a_column_that_its_source_did_not_have_then() -> None:
    for before, change_, key in (([], update(None, {"id": 1}), 1), ([insert(ADA)], update({"id": 1}, {"id": 5}), 5)):
        overlay = ImageOverlay(table_with(), {} if before else stored(table_with(), [insert(ADA)]))
        rows, layer = complete(overlay, [*before, without_name(change_)])
        assert (rows[-1]["id"], rows[-1]["name"]) == (key, None)
        assert [decode_image(image) for image in layer.values() if image] == [{0: key, 2: "1.5"}]


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


WIDE: Final = schema_of({"id": "int64", "name": "string", "total": "decimal(9,2)", "note": "json"}, ["id"])
TABLE: Final = table_with(WIDE)
IMAGES: Final = st.sampled_from(
    [
        b'[%d,"Ada","1.5",null]',
        b'[%d,null,2.50,{"a":[1e2]}]',
        b'[%d,"null",null,"[]"]',
        b'[%d,"old"]',
        b'{"-1":4,"0":%d}',
    ]
)
KEYS: Final = st.integers(0, 5)
VALUES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "name": st.sampled_from(["Eve", None]),
    "total": st.sampled_from(["3", 4, None]),
    "note": st.sampled_from(["{}", None]),
}


@st.composite
def changes(draw: st.DrawFn) -> list[Change]:
    keys = draw(st.lists(KEYS, min_size=1, max_size=4, unique=draw(st.booleans())))
    found = []
    for index, key in enumerate(keys):
        given_names = draw(st.sets(st.sampled_from(sorted(VALUES))))
        row = {"id": key, **{name: draw(VALUES[name]) for name in sorted(given_names)}}
        kind = draw(st.sampled_from(["update", "update", "update", "update", "insert", "delete"]))
        if kind == "update":
            found.append(update(None, row, index))
        else:
            found.append(insert(row, index) if kind == "insert" else delete(row, index))
    return found


def outcome(stored: dict[bytes, StoredImage], written: dict[int, bytes], given_changes: list[Change]) -> Any:
    overlay = ImageOverlay(TABLE, stored)
    overlay.adopt({str(key).encode(): image for key, image in written.items()}, BatchSequence(2))
    try:
        rows, layer = overlay.complete(landing_rows(given_changes, RowRules.of(TABLE)))
    except RejectedInput as rejection:
        return rejection.problems, overlay.completed.size
    rows.batch.validate(full=True)
    return rows.batch.to_pylist(), dict(layer), rows.repeated_inserts, overlay.completed.size


@given(
    stored=st.dictionaries(KEYS, IMAGES, min_size=2),
    written=st.dictionaries(KEYS, IMAGES, max_size=2),
    given_changes=changes(),
)
def test_rows_that_do_not_depend_on_each_other_are_completed_at_once_as_one_by_one(
    stored: dict[int, bytes], written: dict[int, bytes], given_changes: list[Change]
) -> None:
    images = {str(key).encode(): StoredImage(image % key, BatchSequence(1)) for key, image in stored.items()}
    overlaid = {key: image % key for key, image in written.items()}
    found = outcome(images, overlaid, given_changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_overlay._Walk, "run_at_once", lambda _: False)
        assert outcome(images, overlaid, given_changes) == found
