"""The landing order of key changes: one row that moves twice keeps its order, rows that move at once do not meet."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from app.domain.model.change import Image
from app.domain.model.table_options import TableOptions
from app.domain.rows.key_changes import KeyChange, KeyChanges, are_equal
from mirrorgate.errors import Code
from tests.support.rejections import rejected
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"name": "string", "id": "string", "region": "string", "total": "decimal(9,2)"}, ["id", "region"])


def moved(old: Image, new: Image, row: int = 0, message: int = 0) -> KeyChange:
    return KeyChange(row, old, new, message, f"/{message}/after")


def among(*changes: KeyChange, has_images: bool = False) -> KeyChanges:
    return KeyChanges(changes, SCHEMA, TableOptions(), has_images)


def landed(rows: str, live: Mapping[str, bool] | None = None, *, has_images: bool = False) -> str:
    """Return rows in landing order: `-a` deletes, `+b` inserts, `c` is another row.

    `a>b` is a given row that moves, `a>b:x` one whose other column has the value x.
    """
    keys: list[str] = []
    shown: list[str] = []
    changes: list[KeyChange] = []
    for message, text in enumerate(rows.split()):
        move, _, name = text.partition(":")
        old, _, new = move.partition(">")
        if new:
            values: Image = {"name": name} if name else {}
            changes.append(moved({"id": old, **values}, {"id": new, **values}, len(keys), message))
        keys += [old, new] if new else [old]
        shown += [f"-{old}", f"+{new}"] if new else [old]
    is_live = dict(live or {})
    found = []
    row_keys = [key.encode() for key in keys]
    order = among(*changes, has_images=has_images).landing_order(row_keys, lambda key: is_live.get(key.decode()))
    for row in order:
        is_live[keys[row]] = not shown[row].startswith("-")
        found.append(shown[row])
    return " ".join(found)


@pytest.mark.parametrize(
    ("rows", "live", "order"),
    [
        ("x y", {}, "x y"),
        ("a>b", {}, "-a +b"),
        ("x a>b y z", {}, "x -a +b y z"),
        ("x a>b y c>d z", {}, "x -a +b y -c +d z"),
        ("a>b:1 b>c:1", {}, "-a +b -b +c"),
        ("a>b b>c", {"b": False}, "-a +b -b +c"),
        ("a>b:1 b>c:2", {}, "-a -b +b +c"),
        ("a>b b>c c>d", {"b": True, "c": True}, "-a -b -c +b +c +d"),
        ("b>c:2 a>b:1", {}, "-b +c -a +b"),
        ("a>b:1 b>a:2", {}, "-a -b +b +a"),
        ("a>b:1 b>a:1", {}, "-a +b -b +a"),
        ("a>b:1 x b>c:2 y", {}, "-a -b +b x +c y"),
        ("a>b:1 x y b>c:2", {}, "-a -b +b x y +c"),
        ("a>b:1 b>c:2 x d>e:3 e>f:4", {}, "-a -b +b +c x -d -e +e +f"),
        ("a>b b>c b>d", {"b": True}, "-a -b +b +c -b +d"),
        ("a>b b>c x b>d", {"b": True, "c": True, "d": False}, None),
        ("a>b c>d b>e", {"b": True, "d": False}, "-a -c -b +b +d +e"),
        ("a b>a", {"a": False}, None),
        ("a>b b c>d", {"b": False}, "-a +b b -c +d"),
        ("a>b:1 b c>d:2", {}, "-a +b b -c +d"),
        ("a>b:1 b", {}, "-a +b b"),
        ("a>b x x>c", {}, "-a +b x -x +c"),
        ("a>b x>y b>c b>d y>z", {"b": True, "y": True}, "-a -x -b -y +b +y +c -b +d +z"),
    ],
)
def test_rows_that_move_at_once_are_deleted_first_and_one_row_that_moves_twice_keeps_its_order(
    rows: str, live: dict[str, bool], order: str | None
) -> None:
    if order is not None:
        assert landed(rows, live) == order
        return
    with rejected(Code.KEY_IN_USE):
        landed(rows, live)


@pytest.mark.parametrize(
    ("rows", "live", "at"),
    [
        pytest.param("a>b", {"b": True}, 0, id="a row is there"),
        pytest.param("x a>b c>d", {"b": True}, 1, id="and no later move takes it away"),
        pytest.param("a>c b>c", {"c": False}, 1, id="two rows move to one key"),
        pytest.param("a>c b>c", {"c": True}, 1, id="two rows move to a key that a third one has"),
        pytest.param("a>c b>d e>f", {"c": True, "d": True}, 1, id="two keys are taken"),
        pytest.param("a>d b>c e>f", {"c": True, "d": True}, 1, id="two keys are taken, the first one last"),
        pytest.param("a>b b b>c", {"b": True}, 2, id="another change of the key comes between"),
        pytest.param("a>b a b>c", {"b": True, "a": True}, 2, id="another change of the old key comes between"),
        pytest.param("a>b x b>x", {"b": True}, 2, id="a row is moved onto a key that another change has had"),
    ],
)
def test_a_key_that_another_row_keeps_is_rejected_at_the_last_row_that_moves_there(
    rows: str, live: dict[str, bool], at: int
) -> None:
    with rejected(places=[(Code.KEY_IN_USE, at, f"/{at}/after/id", "id")]) as rejection:
        landed(rows, live)
    assert rejection.details == ["another row has the new key, and no update of the same statement moves it"]


def test_one_row_that_moves_twice_and_two_that_move_at_once_are_not_guessed_apart() -> None:
    with rejected(places=[(Code.AMBIGUOUS_KEY_CHANGE, at, f"/{at}/after/id", "id") for at in (1, 2)]) as rejection:
        landed("x a>b b>c")
    assert rejection.details == ["it is unclear whether one row moved twice or two rows moved"] * 2
    for rows, at in (("a>b c>d b>e", [0, 2]), ("x>y a>b b>c", [1, 2])):
        with rejected() as rejection:
            landed(rows)
        assert [place[1] for place in rejection.places] == at
    assert landed("a>b x b>c") == "-a +b x -b +c"


def test_of_two_rows_that_moved_to_a_key_it_is_unclear_which_one_leaves() -> None:
    with rejected(places=[(Code.AMBIGUOUS_KEY_CHANGE, 3, "/3/after/id", "id")]) as rejection:
        landed("a>c b>c c>d c>e", {"c": True})
    assert rejection.details == ["two rows were moved to the old key"]


def test_a_key_without_a_row_image_has_no_row_if_all_rows_that_move_have_images() -> None:
    assert landed("a>b b>c", {"a": True}, has_images=True) == "-a +b -b +c"
    assert landed("a>b x>y b>c", {"a": True, "x": True}, has_images=True) == "-a +b -x +y -b +c"
    assert landed("x>y a>b b>c", {"a": True}, has_images=True) == "-x +y -a +b -b +c"
    for rows, live in (("a>b b>c", {}), ("a>b x>y b>c", {"a": True}), ("a>b b>c", {"a": False})):
        with rejected(Code.AMBIGUOUS_KEY_CHANGE):
            landed(rows, live, has_images=True)
    with rejected(Code.AMBIGUOUS_KEY_CHANGE):
        landed("a>b b>c", {"a": True})


@pytest.mark.parametrize(
    ("after", "before", "same"),
    [
        ({"name": "Ada", "total": "1.5"}, {"name": "Ada", "total": "1.50"}, True),
        ({"name": "Ada"}, {"name": "Ada"}, True),
        ({"name": "Ada", "total": "1"}, {"name": "Bob", "total": "1"}, False),
        ({"name": "Ada", "total": "1"}, {"total": "2"}, False),
        ({"name": "Ada", "total": "1"}, {"total": "1"}, None),
        ({"total": "1"}, {"name": "Ada", "total": "1"}, None),
        ({"total": "1"}, {"total": "x"}, None),
        ({}, {}, None),
    ],
)
def test_the_other_columns_tell_whether_the_row_that_moves_away_is_the_one_that_came(
    after: Image, before: Image, same: bool | None
) -> None:
    earlier = moved({"id": "a", "name": "other", "total": "7"}, {"id": "b", **after})
    later = moved({"id": "b", **before}, {"id": "c", "name": "other", "total": "8"})
    assert among(earlier, later).is_same_row(later, earlier) is same


@pytest.mark.parametrize(
    ("declared", "old", "new", "equal"),
    [
        ("int64", "14", 14, True),
        ("int64", "14", "15", False),
        ("int64", 14, "x", None),
        ("int64", "x", "x", True),
        ("string", "14", "014", False),
        ("string", True, 1, False),
        ("boolean", True, 1, True),
        ("string", Decimal("1.0"), Decimal("1.00"), False),
        ("decimal(9,2)", Decimal("1.0"), Decimal("1.00"), True),
        ("string", None, None, True),
        ("string", None, "x", False),
    ],
)
def test_values_are_equal_once_typed(declared: str, old: Any, new: Any, equal: bool | None) -> None:
    column = schema_of({"c": declared}).columns[0]
    assert are_equal(old, new, column, TableOptions()) is equal
    assert are_equal(new, old, column, TableOptions()) is equal


def test_times_and_bytes_are_equal_as_the_options_of_the_table_read_them() -> None:
    time, data = schema_of({"t": "timestamp", "b": "binary"}).columns
    berlin = TableOptions.parse({"source_timezone": "Europe/Berlin", "columns": {"b": {"encoding": "base64"}}})
    assert are_equal("2024-01-01 01:00:00", "2024-01-01 00:00:00Z", time, berlin) is True
    assert are_equal("2024-01-01 01:00:00", "2024-01-01 00:00:00Z", time, TableOptions()) is False
    assert are_equal("AA==", "AQ==", data, berlin) is False
    assert are_equal("AA==", "AQ==", data, TableOptions()) is None
