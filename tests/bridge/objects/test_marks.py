"""Positions and plans: what a mark and a listing say about the objects to read."""

from hypothesis import given
from hypothesis import strategies as st

from mirrorgate.file_content import MAX_CHARACTERS, Mark, digest_of
from mirrorgate.file_paths import FileOrder, PathTemplate, TablePath
from mirrorgate.folder import Found
from mirrorgate_bridge.objects.engine import producer_name, table_depth
from mirrorgate_bridge.objects.table import plan, resolved, start_after

KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=400)
NUMBERS = st.integers(0, 10**12)


def found(key: str, modified: int = 0, etag: str = "e") -> Found:
    return Found(key, 1, etag, modified)


def pending(objects: list[Found], mark: Mark | None, order: FileOrder = FileOrder.NAME) -> list[str]:
    return [one.key for one in plan(objects, mark, order, {}, first=False).pending]


@given(KEYS, NUMBERS, st.none() | st.integers(0, 10**7), NUMBERS)
def test_a_position_is_short_visible_and_finds_its_object_again(
    key: str, newest: int, after: int | None, end: int
) -> None:
    part = (after, end, digest_of("c")) if after is not None else (None, 0, "")
    mark = Mark(key, digest_of("e"), newest, *part)
    text = mark.encoded()
    assert len(text) <= MAX_CHARACTERS
    assert text.isascii()
    assert text.isprintable()
    read = Mark.decoded(text)
    others = [found(key + "x"), found(key[:-1] + "y"), found(key[:120])]
    assert resolved(read, [*others, found(key)]) == mark
    assert (start_after(read, FileOrder.NAME) or "") <= key


@given(st.lists(st.text("ab/", min_size=1, max_size=4), unique=True, max_size=12), st.data())
def test_what_follows_a_mark_is_pending_whatever_the_listing_began_with(keys: list[str], data: st.DataObject) -> None:
    objects = [found(key) for key in keys]
    assert pending(objects, None) == sorted(keys)
    if keys:
        key = data.draw(st.sampled_from(keys))
        mark = Mark(key, digest_of("e"), 0, data.draw(st.none() | st.just(1)))
        after = start_after(mark, FileOrder.NAME)
        listed = [one for one in objects if after is None or one.key > after]
        expected = sorted(other for other in keys if other > key)
        assert pending(listed, mark) == ([key] if mark.next_message else []) + expected


def test_objects_before_the_mark_are_told_apart() -> None:
    mark = Mark("m", digest_of("e"), 100)
    objects = [found("a", 5), found("b", 101), found("c", 5, "new"), found("m", 100, "new"), found("z")]
    known = {"a": digest_of("e"), "c": digest_of("e")}
    planned = plan(objects, mark, FileOrder.NAME, known, first=False)
    assert (planned.late, planned.changed, [one.key for one in planned.pending]) == (("b",), ("c", "m"), ["z"])
    at_start = plan([found("a", 5), found("b", 101)], mark, FileOrder.NAME, {}, first=True)
    assert at_start.late == ("b",)


def test_a_partly_read_object_that_is_gone_is_told_and_a_rewritten_one_is_read_on() -> None:
    mark = Mark("m", digest_of("e"), 100, 7)
    assert plan([found("z")], mark, FileOrder.NAME, {}, first=True).gone == "m"
    assert pending([found("m", 200, "new"), found("z")], mark) == ["m", "z"]
    assert pending([found("a", 300), found("m", 200, "new")], mark, FileOrder.MODIFIED) == ["m", "a"]


def test_a_cut_key_that_no_object_fits_is_lost() -> None:
    mark = Mark.decoded(Mark("k" * 500, "e", 1).encoded())
    assert plan([found("k" * 499)], mark, FileOrder.NAME, {}, first=True).is_lost


def test_producers_of_tables_differ_and_are_valid() -> None:
    paths = [
        TablePath("s.t"),
        TablePath("s.t", {"mode": "snapshot"}),
        TablePath(None),
        TablePath("s.é"),
        TablePath("x" * 300),
    ]
    names = [producer_name("lake", "in", path) for path in paths]
    assert names[0] == "objects:lake/in/s.t"
    assert len(set(names)) == len(paths)
    assert all(len(name) <= 255 and name.isascii() and name.isprintable() and " " not in name for name in names)


def test_templates_with_one_folder_for_each_table_are_listed_by_table() -> None:
    depths = {
        "{schema}/{table}/…": 2,
        "a/{table}/*.json": 2,
        "{table}_*.csv": 0,
        "**/{table}/*": 0,
        "{schema}/{table}.csv": 0,
        "in/{mode}/{schema}.{table}/…": 3,
        "{table}/{day}/…": 1,
        "{day}/{table}/…": 0,
        "*/{table}/…": 0,
        "{table}/{mode}-{day}/…": 1,
    }
    assert {text: table_depth((PathTemplate.parse(text),)) for text in depths} == depths
