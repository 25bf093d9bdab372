"""Tables in paths, names of unfinished files, and orders, which folders and buckets share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorgate.errors import Misconfigured
from mirrorgate.file_paths import FileNames, FileOrder, PathTemplate, TablePath, first_match, sort_key


@pytest.mark.parametrize(
    ("template", "path", "table"),
    [
        ("{schema}/{table}/…", "sales/orders/2026/11/part-3.json", "sales.orders"),
        ("{schema}/{table}/...", "sales/orders/part-3.json", "sales.orders"),
        ("{schema}/{table}/", "sales/orders", None),
        ("{table}/", "orders/a", "orders"),
        ("{schema}.{table}/*.json", "sales.orders/part-3.json", "sales.orders"),
        ("{schema}.{table}/*.json", "sales.orders/2026/part-3.json", None),
        ("{schema}.{table}__ct/**", "dbo.orders__ct/20261122-1.csv.gz", "dbo.orders"),
        ("schema={schema}/table={table}/**", "schema=a/table=b.c/1", "a.b.c"),
        ("{table}_{date}.csv", "orders_20261122.csv", "orders"),
        ("**/{table}/*", "a/b/orders/1.json", "orders"),
        ("**/{table}/*", "orders/1.json", "orders"),
        ("{table}/{table}-*.json", "orders/orders-1.json", "orders"),
        ("{table}/{table}-*.json", "orders/items-1.json", None),
        ("a+(b)/{table}/*", "a+(b)/t/x", "t"),
        ("{mode}/{table}/*", "changes/t/x", None),
    ],
)
def test_a_template_finds_the_table_in_a_path(template: str, path: str, table: str | None) -> None:
    found = PathTemplate.parse(template).match(path)
    assert (found and found.table) == table


def test_a_path_can_give_parameters_and_the_first_template_that_matches_counts() -> None:
    templates = [PathTemplate.parse("{mode}/{table}/…"), PathTemplate.parse("{schema}/{table}/…")]
    assert first_match(templates, "snapshot/t/x") == TablePath("t", {"mode": "snapshot"})
    assert first_match(templates, "sales/t/x") == TablePath("sales.t")
    assert first_match(templates, "x") is None


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{schema}/…", r"has no \{table\}"),
        ("", "empty segment"),
        ("{schema}//{table}/x", "empty segment"),
        ("{schema}/{table}", r"ends with \{table\}"),
        ("{schema}{table}/x", "nothing between two placeholders"),
        ("{Table}/x", "cannot be read at '{Table}'"),
        ("{table/x", "cannot be read at '{'"),
    ],
)
def test_a_template_that_cannot_work_is_rejected_with_the_place(template: str, said: str) -> None:
    with pytest.raises(Misconfigured, match=said):
        PathTemplate.parse(template)


@given(st.text(alphabet="{}*/.tablesch_=…", max_size=30), st.text(alphabet="ab/._", max_size=12))
def test_any_text_is_a_template_or_a_clear_error(text: str, path: str) -> None:
    try:
        template = PathTemplate.parse(text)
    except Misconfigured:
        return
    template.match(path)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6)))
def test_the_order_of_names_is_that_of_their_bytes(paths: list[str]) -> None:
    assert sorted(paths, key=lambda path: sort_key(FileOrder.NAME, path, 0)) == sorted(paths, key=str.encode)


def test_full_loads_can_go_before_changes() -> None:
    paths = ["t/20261122-1.csv", "t/LOAD00000002.csv", "t/LOAD00000001.csv"]
    assert sorted(paths, key=lambda path: sort_key(FileOrder.LOAD_FIRST, path, 0)) == [*paths[:0:-1], paths[0]]


def test_names_of_unfinished_files_and_folders_hold_no_changes() -> None:
    names = FileNames(only=("*.json", "logs/*"), ignored=("b*", "a/c.json"), done_marker=".ok")
    paths = ["a.json", "x/a.json", "logs/y/z", "_x/a.json", ".git/a.json", "b.json", "a/c.json", "a.json.ok", "c.tmp"]
    assert [path for path in paths if names.holds_changes(path)] == ["a.json", "x/a.json", "logs/y/z"]
