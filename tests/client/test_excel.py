"""Sheets of Excel as NDJSON: the types of cells, what is skipped, and errors that name the cell and not its value."""

import datetime as dt
import json
import sys
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import openpyxl
import pytest

from mirrorgate.chunking.chunks import Limits
from mirrorgate.errors import Code, Misconfigured
from mirrorgate.excel import ExcelCutter, Sheet, SheetColumns
from mirrorgate.file_content import Mark
from tests.support.rejections import rejected

NOON = dt.datetime(2026, 11, 1, 12, 30)
DAY = dt.datetime(2026, 11, 2)


def workbook(*rows: Sequence[Any], formats: dict[str, str] | None = None, **more: Sequence[Sequence[Any]]) -> bytes:
    """Return a workbook with the sheet Rows, and more sheets by name."""
    book = openpyxl.Workbook()
    for name, content in {"Rows": rows, **more}.items():
        sheet = book.create_sheet(name)
        for row in content:
            sheet.append(row)
    del book["Sheet"]
    for cell, number_format in (formats or {}).items():
        book["Rows"][cell].number_format = number_format
    stream = BytesIO()
    book.save(stream)
    return stream.getvalue()


def sent(content: bytes, sheet: str | None = None, **limits: int) -> list[dict[str, Any]]:
    chunks = ExcelCutter(sheet).chunks([content], Limits(10**6, **limits), 0)
    return [json.loads(line) for chunk, _ in chunks for line in chunk.body.splitlines() if line]


def types(content: bytes) -> dict[str, Any]:
    columns = SheetColumns(Sheet.opened(BytesIO(content), None)).definition(["a"])["columns"]
    return {column["name"]: column["type"] for column in columns}


def test_cells_are_sent_by_their_types() -> None:
    formats = {"E3": "yyyy-mm-dd", "D3": "yyyy-mm-dd hh:mm"}
    row = ["x", 1, 2.5, NOON, DAY, True, None, dt.time(7, 5), "", 3.0]
    content = workbook([], [*"abcdefghij"], row, formats=formats)
    assert sent(content) == [
        {"a": "x", "b": 1, "c": 2.5, "d": "2026-11-01T12:30:00", "e": "2026-11-02", "f": True, "g": None,
         "h": "07:05:00", "i": None, "j": 3},
    ]  # fmt: skip
    assert types(content) == {
        "a": "string", "b": "int64", "c": "float64", "d": "timestamp", "e": "date", "f": "boolean", "h": "string",
        "j": "int64",
    }  # fmt: skip


def test_the_type_of_a_column_holds_all_of_its_values() -> None:
    formats = {"B2": "dd/mm/yyyy"}
    content = workbook([*"abc"], [1, DAY, 1], [1.5, NOON, "x"], [None, None, True], formats=formats)
    assert types(content) == {"a": "float64", "b": "timestamp", "c": "string"}


def test_empty_rows_are_skipped_and_another_sheet_is_read_by_its_name() -> None:
    content = workbook(["id"], [1], [None], [], [2], Other=[["id"], [3]])
    assert sent(content) == [{"id": 1}, {"id": 2}]
    assert sent(content, "Other") == [{"id": 3}]


def test_a_sheet_continues_after_its_durable_rows_and_only_if_they_are_unchanged() -> None:
    rows = [["id"], [1], [], [2], [3]]
    (first, digest), *_ = ExcelCutter().chunks([workbook(*rows)], Limits(10**6, 2), 0)
    mark = Mark("k", "e", 0, first.after, first.end, digest)
    rest = ExcelCutter().chunks([workbook(*rows, [4])], Limits(10**6), 0, mark)
    assert [json.loads(line) for chunk, _ in rest for line in chunk.body.splitlines() if line] == [{"id": 3}, {"id": 4}]
    with rejected(Code.SOURCE_POSITION_LOST):
        list(ExcelCutter().chunks([workbook(["id"], [9], [], [2], [3])], Limits(10**6), 0, mark))


def test_problems_of_the_gateway_name_the_cell() -> None:
    cutter = ExcelCutter()
    chunks = [chunk for chunk, _ in cutter.chunks([workbook([], ["id", "n"], [1, 2], [], [3, 4])], Limits(10**6, 1), 0)]
    problem = {"index": 0, "detail": "is wrong"}
    (of_cell,) = cutter.located(chunks[1], [{**problem, "column": "n"}])
    (of_row,) = cutter.located(chunks[1], [problem])
    assert (of_cell["index"], of_cell["detail"]) == (1, "Rows!B5: is wrong")
    assert of_row["detail"] == "Rows!5: is wrong"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([["a"], ["#DIV/0!"]], "Rows!A2 is an error"),
        ([["a", None], [1, "secret"]], "Rows!B2 has a value, and its column no name in row 1"),
        ([["a"], [1, "secret"]], "Rows!B2 has a value, and its column no name in row 1"),
        ([["a", "b", "a"]], "Rows!C1 names a column that has its name"),
        ([[]], "the sheet Rows has no values"),
    ],
)
def test_a_sheet_that_is_wrong_names_the_cell_and_not_its_value(rows: list[list[Any]], said: str) -> None:
    with rejected() as rejection:
        sent(workbook(*rows))
    assert rejection.detail == said


def test_rows_before_a_wrong_cell_are_sent() -> None:
    chunks = ExcelCutter().chunks([workbook(["a"], [1], [2], ["#N/A"])], Limits(10**6), 0)
    assert json.loads(next(chunks)[0].body) == {"a": 1}
    with rejected():
        next(chunks)


def test_what_is_no_workbook_or_lacks_the_sheet_is_rejected() -> None:
    with rejected() as damaged:
        sent(workbook(["a"])[:100])
    with rejected() as other:
        sent(workbook(["a"]), "Sales")
    assert damaged.detail == "the file cannot be read as Excel"
    assert other.detail == "the workbook has no sheet Sales: it has Rows"


def test_without_openpyxl_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    content = workbook(["a"])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(Misconfigured) as raised:
        sent(content)
    assert "mirrorgate[excel]" in raised.value.remedy
