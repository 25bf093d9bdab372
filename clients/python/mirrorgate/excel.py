"""Rows of a sheet of Excel, read in a stream and sent as NDJSON: the first row with values names the columns.

The lines of the NDJSON are the rows of the sheet below its header, an empty line for an empty row. So a line says which
row a problem is about. Invariant: an error names sheet and cell, never the value.
"""

import datetime as dt
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, BinaryIO, Final
from zipfile import BadZipFile

import msgspec

from mirrorgate.arrow_rows import Columns, is_operation, quoted, seekable
from mirrorgate.chunking.chunks import Chunk, Limits, positions_of
from mirrorgate.chunking.json_messages import split_json
from mirrorgate.errors import Code, Misconfigured, RejectedInput
from mirrorgate.file_content import Mark, StreamCutter

_NOT_OF_FORMAT: Final = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]')
"""Parts of a number format that are shown as they are: texts, colors, locales."""
_MAX_EXACT: Final = 2**53
_LINES_AT_ONCE: Final = 1_000
_CORRECT: Final = "Correct the sheet and send the file again."


@dataclass
class Sheet:
    """One sheet of a workbook that is open."""

    name: str
    rows: Callable[[], Iterator[Sequence[Any]]]
    """Return the rows from the first one, as cells."""
    header_row: int = 0
    headers: Sequence[str | None] = ()
    """The name of each column, None for one without a name."""

    @classmethod
    def opened(cls, file: BinaryIO, name: str | None) -> "Sheet":
        """Open a sheet, the first one without a `name`, and read its header. Raises RejectedInput."""
        try:
            import openpyxl
        except ModuleNotFoundError as error:
            remedy = "Install the extra `mirrorgate[excel]`."
            raise Misconfigured(Code.EXTRA_MISSING, "Reading .xlsx needs openpyxl", remedy=remedy) from error
        warnings.filterwarnings("ignore", module=r"openpyxl\..*")  # extensions that do not concern values
        try:
            workbook = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
        except (BadZipFile, OSError, KeyError, ValueError, SyntaxError) as error:
            remedy = "Give a complete workbook (.xlsx) without a password."
            raise RejectedInput(Code.BAD_REQUEST, "the file cannot be read as Excel", remedy=remedy) from error
        sheets = {sheet.title: sheet for sheet in workbook.worksheets}
        if not sheets or (name is not None and name not in sheets):
            detail = f"the workbook has no sheet {name}: it has {', '.join(sheets)}"
            raise RejectedInput(Code.BAD_REQUEST, detail, remedy="Correct --sheet.")
        found = sheets[name] if name is not None else workbook.worksheets[0]
        found.reset_dimensions()  # other programs write wrong ones
        sheet = cls(found.title, found.iter_rows)
        sheet._read_header()
        return sheet

    def place(self, row: int, column: int) -> str:
        """Return the name of a cell, such as `Orders!C17`; row and column from 1."""
        letters = ""
        while column:
            column, digit = divmod(column - 1, 26)
            letters = chr(ord("A") + digit) + letters
        return f"{self.name}!{letters}{row}"

    def place_of(self, line: int, column: str | None) -> str:
        """Return the cell that a line of the NDJSON and a column are about, or the row."""
        row = self.header_row + line
        return self.place(row, self.headers.index(column) + 1) if column in self.headers else f"{self.name}!{row}"

    def values(self) -> Iterator[Sequence[tuple[str, Any]] | None]:
        """Yield the values of each row below the header by column, None for an empty row. Raises RejectedInput."""
        for number, cells in enumerate(self.rows(), 1):
            if number <= self.header_row:
                continue
            values = [(place, self._value(cell, number, place)) for place, cell in enumerate(cells, 1)]
            if all(value is None for _, value in values):
                yield None
                continue
            names = {place: name for place, name in enumerate(self.headers, 1) if name is not None}
            unnamed = next((place for place, value in values if value is not None and place not in names), None)
            if unnamed is not None:
                detail = f"{self.place(number, unnamed)} has a value, and its column no name in row {self.header_row}"
                raise RejectedInput(Code.UNKNOWN_COLUMN, detail, remedy=_CORRECT)
            given = dict(values)
            yield [(name, given.get(place)) for place, name in names.items()]

    def lines(self, left_out: Collection[str]) -> Iterator[bytes]:
        """Yield blocks of NDJSON. Raises RejectedInput after the lines before the cell at fault."""
        encoder, ready = msgspec.json.Encoder(), list[bytes]()
        try:
            for row in self.values():
                ready.append(b"" if row is None else encoder.encode(_written(row, left_out)))
                if len(ready) == _LINES_AT_ONCE:
                    yield b"\n".join([*ready, b""])
                    ready = []
        except RejectedInput:
            yield b"\n".join([*ready, b""])
            raise
        yield b"\n".join([*ready, b""])

    def _read_header(self) -> None:
        for number, cells in enumerate(self.rows(), 1):
            names = [self._value(cell, number, place) for place, cell in enumerate(cells, 1)]
            if any(name is not None for name in names):
                self.header_row = number
                self.headers = [None if name is None else str(_json_value(name)).strip() for name in names]
                break
        else:
            raise RejectedInput(Code.EMPTY_REQUEST, f"the sheet {self.name} has no values", remedy=_CORRECT)
        for place, name in enumerate(self.headers, 1):
            if name is not None and name in self.headers[: place - 1]:
                cell = self.place(self.header_row, place)
                raise RejectedInput(Code.BAD_REQUEST, f"{cell} names a column that has its name", remedy=_CORRECT)

    def _value(self, cell: Any, row: int, column: int) -> Any:
        """Return the value of a cell; a day without a time in its format as a date."""
        if cell.data_type == "e":
            remedy = "Correct the formula, or clear the cell."
            raise RejectedInput(Code.BAD_VALUE, f"{self.place(row, column)} is an error", remedy=remedy)
        value = cell.value
        if isinstance(value, dt.datetime) and not _shows_time(cell.number_format):
            return value.date() if value.time() == dt.time() else value
        return None if value == "" else value


@dataclass(frozen=True)
class SheetColumns:
    """The columns of a sheet. Their types are those of all values, so that the sheet is read once more for them."""

    sheet: Sheet

    @property
    def names(self) -> Collection[str]:
        """All columns."""
        return [name for name in self.sheet.headers if name is not None]

    @property
    def untyped(self) -> Collection[str]:
        """The columns without a value."""
        return {name for name, of_type in self._types.items() if of_type is None}

    def definition(self, key: Sequence[str]) -> Mapping[str, Any]:
        """Return the fields of the request that registers a table: key columns are required."""
        columns = [
            {"name": name, "type": of_type, "nullable": name not in key}
            for name, of_type in self._types.items()
            if of_type is not None and not is_operation(name)
        ]
        return {"columns": columns}

    def addition(self, names: Collection[str], key: Mapping[str, str]) -> Mapping[str, str]:
        """Return the parameters of requests that add columns. They declare the key, too."""
        types = {**key, **{name: str(self._types[name]) for name in self.names if name in names}}
        return {"columns": ",".join(f"{quoted(name)}:{of_type}" for name, of_type in types.items())}

    @cached_property
    def _types(self) -> Mapping[str, str | None]:
        found: dict[str, str | None] = dict.fromkeys(self.names)
        for row in self.sheet.values():
            for name, value in row or ():
                if value is not None and (before := found[name]) != "string":
                    found[name] = _joined(before, _type_of(value))
        return found


@dataclass
class ExcelCutter:
    """Cuts sheets into requests of NDJSON. `on_columns` is that of ParquetCutter."""

    sheet: str | None = None
    """The name of the sheet, None for the first one."""
    on_columns: Callable[[Columns], Collection[str]] = lambda _: ()
    _read: Sheet = field(default_factory=lambda: Sheet("", lambda: iter(())))

    def chunks(
        self, blocks: Iterable[bytes], limits: Limits, skip: int, mark: Mark | None = None
    ) -> Iterator[tuple[Chunk, str]]:
        """Yield the chunks after the first `skip` rows or after `mark`, each with the hash of the rows before its end.

        Raises RejectedInput.
        """
        with seekable(blocks) as (file, _):
            self._read = Sheet.opened(file, self.sheet)
            lines = self._read.lines(self.on_columns(SheetColumns(self._read)))
            yield from StreamCutter(split_json).chunks(lines, limits, skip, mark)

    def located(self, chunk: Chunk, problems: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the problems of a chunk, each with the cell or row of its sheet."""
        positions = positions_of(chunk, {problem["index"] for problem in problems if "index" in problem}, split_json)
        found = []
        for problem in problems:
            if position := positions.get(problem.get("index", -1)):
                cell = self._read.place_of(position.line, problem.get("column"))
                problem = {**problem, "index": position.message, "detail": f"{cell}: {problem['detail']}"}
            found.append(dict(problem))
        return found


def _shows_time(number_format: str) -> bool:
    """Return whether a number format shows hours, minutes or seconds."""
    return bool(re.search("[hs]", _NOT_OF_FORMAT.sub("", number_format).lower()))


def _written(row: Iterable[tuple[str, Any]], left_out: Collection[str]) -> dict[str, Any]:
    return {name: _json_value(value) for name, value in row if name not in left_out}


def _json_value(value: Any) -> Any:
    """Return a value as JSON has it. Excel's numbers are doubles, so a whole one has no fraction."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_EXACT:
        return int(value)
    if isinstance(value, dt.timedelta):
        seconds = round(value.total_seconds())
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return value.isoformat() if isinstance(value, dt.date | dt.time) else value


def _type_of(value: Any) -> str:
    match _json_value(value):
        case bool():
            return "boolean"
        case int(number) if abs(number) <= _MAX_EXACT:
            return "int64"
        case int() | float():
            return "float64"
    if isinstance(value, dt.datetime):
        return "timestamp"
    return "date" if isinstance(value, dt.date) else "string"


def _joined(before: str | None, other: str) -> str:
    """Return the type that holds values of both; a column of several kinds is text."""
    if before is None or before == other:
        return other
    for wide, narrow in (("float64", "int64"), ("timestamp", "date")):
        if {before, other} == {wide, narrow}:
            return wide
    return "string"
