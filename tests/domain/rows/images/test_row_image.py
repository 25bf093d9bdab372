"""Row images as they are stored, also of rows that are flagged as deleted."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.model.change import Change, SourceValue
from app.domain.model.projection import AuditColumns, Deletes
from app.domain.model.table import BatchSequence, Table, with_landing
from app.domain.model.table_options import PartialUpdates, RowImages, TableOptions
from app.domain.model.table_schema import ColumnType
from app.domain.rows.conversion import convert
from app.domain.rows.image_overlay import ImageOverlay
from app.domain.rows.key_changes import KeyChange
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_image import (
    MAX_COMPLETED_BYTES,
    MAX_KEY_BYTES,
    CompletedBytes,
    ImageRows,
    IncompleteRow,
    Known,
    MissingColumns,
    StoredImage,
    TooMuchTogether,
    are_deleted,
    by_position,
    completion,
    decode_image,
    deleted_image,
    encode_image,
    encode_images,
    is_deleted,
    key_column,
    known_lists,
    known_values,
    list_images,
    missing_of,
    row_keys,
    value_in,
)
from app.domain.rows.row_rules import RowRules
from mirrorgate.errors import Code, RejectedInput
from tests.support.rejections import rejected
from tests.support.samples.changes import delete, insert, update, upsert
from tests.support.samples.schemas import active_table, schema_of

TEXTS: Final = st.text('a"\\,[]\x01 é𝄞', max_size=4) | st.sampled_from(["a" * 256, "a" * 257, "é" * 200, '","' * 90])
KEY_VALUES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "boolean": st.booleans(),
    "int16": st.integers(-3, 3) | st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    "float32": st.sampled_from([0.0, -0.0, float("inf")]) | st.floats(width=32, allow_nan=False),
    "float64": st.sampled_from([0.0, -0.0, 0.1 + 0.2, 0.3]) | st.floats(allow_nan=False),
    "decimal(9,2)": st.decimals(-3, 3, places=2),
    "decimal(38,38)": st.integers(-9, 9).map(lambda number: Decimal(number).scaleb(-38)),
    "date": st.dates(date(2024, 2, 28), date(2024, 3, 1)) | st.dates(),
    "timestamp": st.sampled_from([0, 1, 999_999]).map(lambda part: datetime(2024, 2, 29, 1, 2, 3, part, UTC)),
    "string": TEXTS,
    "binary": st.binary(max_size=2) | st.sampled_from([b"a" * 128, b"a" * 129]),
    "json": TEXTS,
}


@st.composite
def typed_keys(draw: st.DrawFn) -> tuple[list[pa.Array], list[tuple[Any, ...]]]:
    """Key columns of one to three types, and their rows as Python values."""
    types = draw(st.lists(st.sampled_from(sorted(KEY_VALUES)), min_size=1, max_size=3))
    rows = draw(st.lists(st.tuples(*(KEY_VALUES[name] for name in types)), min_size=2, max_size=12))
    columns = zip(types, zip(*rows, strict=True), strict=True)
    return [pa.array(values, ColumnType.parse(name).arrow) for name, values in columns], rows


@given(keys=typed_keys())
def test_row_keys_are_equal_exactly_for_equal_typed_keys(keys: tuple[list[pa.Array], list[tuple[Any, ...]]]) -> None:
    columns, rows = keys
    found = row_keys(columns)
    assert len(found) == len(rows)
    assert len(set(found)) == len(set(rows)) == len(set(zip(rows, found, strict=True)))
    assert all(len(key) <= MAX_KEY_BYTES for key in found)
    assert key_column(columns).equals(pa.array(found, pa.binary()))


@pytest.mark.parametrize(
    ("declared", "spellings"),
    [
        ("int64", ["14", 14, "014", "14.0", Decimal("14.00")]),
        ("decimal(9,2)", ["1", "1.0", 1, Decimal("1.00")]),
        ("float64", ["0", "-0.0", 0, Decimal("-0.00"), "0e5"]),
        ("float32", ["0.1", "0.10000000149011612"]),
        ("boolean", ["true", "TRUE", 1, True, "1"]),
        ("timestamp", ["2024-02-29 01:02:03", "2024-02-29T01:02:03.000Z", "2024-02-29 03:02:03+02:00"]),
        ("binary", ["0aFF", "0AFF"]),
    ],
)
def test_two_spellings_of_one_typed_key_have_one_row_key(declared: str, spellings: list[SourceValue]) -> None:
    assert len(set(row_keys([convert(spellings, ColumnType.parse(declared))]))) == 1


def test_a_composite_key_does_not_depend_on_where_its_parts_are_joined() -> None:
    parts = [("a", 'b","c'), ('a","b', "c"), ('a"', ',"b'), ("", "ab"), ("ab", "")]
    assert len(set(row_keys([pa.array(column) for column in zip(*parts, strict=True)]))) == len(parts)


def test_a_batch_without_rows_has_no_row_keys() -> None:
    for types in ([pa.int64()], [pa.binary(), pa.date32()]):
        assert row_keys([pa.array([], type_) for type_ in types]) == []


FRACTIONS: Final = st.decimals(allow_nan=False, allow_infinity=False).filter(
    lambda number: set(str(number)) & {".", "E"}
)
LEAVES: Final = st.none() | st.booleans() | st.integers() | st.integers(-(2**200), 2**200) | FRACTIONS | st.text()
VALUES: Final = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


@given(values=st.lists(VALUES, max_size=6), unknown=st.sets(st.integers(0, 5)))
@example(values=[Decimal("1E+400"), Decimal("-0.0"), 2**64, True, 1, "1", ""], unknown=set())
@example(values=[None, {"0": 1}], unknown={0})
def test_an_image_gives_back_every_value_that_it_knows(values: list[SourceValue], unknown: set[int]) -> None:
    expected = {place: value for place, value in enumerate(values) if place not in unknown}
    assert repr(decode_image(encode_image(values, unknown))) == repr(expected)


def test_null_is_known_and_a_column_that_was_added_later_is_not() -> None:
    assert decode_image(encode_image([1, None])) == {0: 1, 1: None}
    assert decode_image(encode_image([1, None, None, "x"], unknown=[1])) == {0: 1, 2: None, 3: "x"}


@pytest.mark.parametrize(
    ("declared", "value", "key"),
    [
        ("int64", "14", b"14"),
        ("boolean", "1", b"true"),
        ("float64", "0.1", b"0.1"),
        ("float32", "0.1", b"0.10000000149011612"),
        ("decimal(9,2)", "1", b"1.00"),
        ("date", "2024-02-29", b"2024-02-29"),
        ("timestamp", "2024-02-29 01:02:03.5", b"2024-02-29 01:02:03.500000Z"),
        ("binary", "0AFF", b"0aff"),
        ("string", "\u00e9\n", b"\xc3\xa9\n"),
        ("string", "a" * 256, b"a" * 256),
        ("string", "a" * 257, b"\0" + hashlib.sha256(b"a" * 257).digest()),
    ],
)
def test_row_keys_are_those_under_which_images_are_stored(declared: str, value: SourceValue, key: bytes) -> None:
    columns = [convert([value], ColumnType.parse(declared))]
    assert row_keys(columns) == key_column(columns).to_pylist() == [key]


def test_keys_of_several_columns_and_images_are_stored_as_json() -> None:
    assert row_keys([pa.array([14]), pa.array(['\u00e9"'])]) == [b'["14","\xc3\xa9\\""]']
    row: list[SourceValue] = [1, "\u00e9\n", None, Decimal("1.50"), True, {"a": [Decimal("1E+2")]}]
    text = b'[1,"\xc3\xa9\\n",null,1.50,true,{"a":[1E+2]}]'
    assert encode_image(row) == text
    assert encode_images([row, [None]]) == [text, b"[null]"]
    assert encode_images([]) == []
    assert encode_image([1, "a", 2], [1]) == b'{"-1":3,"0":1,"2":2}'


WHOLE: Final[Known] = [1, "a"]
IN_PARTS: Final[Known] = {-1: 2, 1: "a"}
OF_EARLIER_PROGRAM: Final[Known] = {1: "a"}


def test_an_image_knows_columns_that_were_added_later_as_null() -> None:
    assert by_position(WHOLE, 3) == {-1: 3, 0: 1, 1: "a", 2: None}
    assert by_position(IN_PARTS, 3) == {-1: 3, 1: "a", 2: None}
    assert by_position(OF_EARLIER_PROGRAM, 3) == {1: "a"}
    assert [value_in(WHOLE, at) for at in range(4)] == [1, "a", None, None]
    assert [value_in(IN_PARTS, at) for at in (1, 2)] == ["a", None]


def test_what_an_image_does_not_know_is_missing() -> None:
    assert missing_of((0, 2), None) == (0, 2)
    assert list(missing_of((0, 2), WHOLE)) == []
    assert list(missing_of((0, 1, 2, 3), IN_PARTS)) == [0]
    assert list(missing_of((0, 1, 2), OF_EARLIER_PROGRAM)) == [0, 2]


def test_images_are_read_together_only_if_each_knows_all_columns_of_the_table() -> None:
    whole, parts = encode_image([1, "a"]), encode_image([1, "a"], [0])
    assert list_images([whole, whole], 2) == [[1, "a"]] * 2
    assert list_images([], 2) == []
    assert list_images([whole], 3) is list_images([whole, parts], 2) is None
    assert known_lists([whole, b"[2]"]) == [[1, "a"], [2]]
    assert known_lists([whole, parts]) is None
    assert [known_values(image) for image in (whole, parts)] == [WHOLE, IN_PARTS]


def test_a_row_is_completed_from_the_old_values_behind_its_own() -> None:
    assert completion((0, 2), 3)(("a", "b", "c", "old a", "old b", "old c")) == ("old a", "b", "old c")
    assert completion((0,), 1)(("a", "old a")) == ("old a",)
    assert completion((), 1)(("a", "old a")) == ("a",)


def test_the_image_of_a_moved_row_is_looked_up_under_its_old_key() -> None:
    rows = [IncompleteRow((), MissingColumns((1,), moved), (), 0, "") for moved in (False, True)]
    change = KeyChange(2, {}, {}, 0, "")
    images = ImageRows([b"a", b"b", b"c", b"d"], [None] * 4, {0: rows[0], 2: rows[1]}, [1], [change])
    assert images.wanted() == {b"a", b"b"}
    assert images.asked() == {b"b", b"c", b"d"}
    assert images.has_deletes
    assert not ImageRows([b"a", b"b"], [None, b"[1]"], {0: rows[0]}).has_deletes, "an incomplete row is not deleted"
    assert (images.deletes, images.flagged()) == ([1, 3], {b"b", b"d"})
    moved = ImageRows([b"a", b"b", b"c"], [b"[1]", None, b"[1]"], key_changes=[KeyChange(1, {}, {}, 0, "")])
    assert moved.flagged() == {b"b", b"c"}


def test_an_image_of_a_deleted_row_says_so_and_keeps_what_it_knew() -> None:
    whole, parts = deleted_image(WHOLE), deleted_image(IN_PARTS)
    assert (whole, parts) == (b'{"-2":true,"-1":2,"0":1,"1":"a"}', b'{"-2":true,"-1":2,"1":"a"}')
    assert deleted_image(known_values(whole)) == whole
    assert [is_deleted(image) for image in (whole, parts, b'[1,"a"]')] == [True, True, False]
    assert are_deleted(pa.array([whole, b'{"-1":2,"1":"a"}', parts])) == [True, False, True]


def test_completed_rows_are_bounded_alone_and_together() -> None:
    CompletedBytes().check(MAX_COMPLETED_BYTES)
    CompletedBytes(MAX_COMPLETED_BYTES - 7).check(7)
    for left, size, rejection in (
        (0, MAX_COMPLETED_BYTES + 1, RejectedInput),
        (7, MAX_COMPLETED_BYTES + 1, RejectedInput),
        (1, MAX_COMPLETED_BYTES, TooMuchTogether),
    ):
        with pytest.raises(RejectedInput) as error:
            CompletedBytes(left).check(size)
        assert (type(error.value), error.value.code) == (rejection, Code.BODY_TOO_LARGE)
        assert str(MAX_COMPLETED_BYTES) in error.value.detail


SCHEMA = schema_of({"id": "int64", "name": "string", "total": "int64"}, ["id"], required=["id"])
OPTIONS = TableOptions(audit_columns=AuditColumns(deleted="gone"), deletes=Deletes.FLAG, row_images=RowImages.ON)
FLAGGING = active_table(with_landing(SCHEMA, OPTIONS), OPTIONS)
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
        pytest.param([delete({"id": 2})], [(2, "y", 1, 1)], 0, id="delete"),
        pytest.param([delete({"id": 1})], [(1, "x", 1, 1)], 0, id="delete again"),
        pytest.param([delete({"id": 7})], [(7, None, None, 2)], 0, id="delete of a key without a row"),
        pytest.param([insert(row(1, "new"))], [(1, "new", 1, 4)], 1, id="insert of a deleted key"),
        pytest.param([upsert(row(1, "new"))], [(1, "new", 1, 4)], 0, id="upsert of a deleted key"),
        pytest.param([update({"id": 1}, row(1, "new"))], [(1, "new", 1, 1)], 0, id="update of a deleted key"),
        pytest.param([update({"id": 2}, row(3, "new"))], [(2, "y", 1, 1), (3, "new", 1, 0)], 0, id="changed key"),
        pytest.param(
            [update({"id": 2}, row(1, "new"))],
            [(2, "y", 1, 1), (1, "new", 1, 4)],
            1,
            id="changed key onto a deleted one",
        ),
        pytest.param([insert(row(3)), delete({"id": 3})], [(3, "x", 1, 0), (3, "x", 1, 1)], 0, id="insert and delete"),
        pytest.param(
            [delete({"id": 2}), insert(row(2, "new")), delete({"id": 2})],
            [(2, "y", 1, 1), (2, "new", 1, 4), (2, "new", 1, 1)],
            1,
            id="delete, insert and delete",
        ),
        pytest.param(
            [insert(row(3)), delete({"id": 7}), delete({"id": 2})],
            [(3, "x", 1, 0), (7, None, None, 2), (2, "y", 1, 1)],
            0,
            id="other rows beside a delete",
        ),
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
    with rejected(Code.BODY_TOO_LARGE):
        landed(overlay, [delete({"id": key}) for key in range(3)])
    assert overlay.completed.size == 0
    for key in (0, 1):
        landed(overlay, [delete({"id": key})])
    with pytest.raises(TooMuchTogether):
        landed(overlay, [delete({"id": 2})])
