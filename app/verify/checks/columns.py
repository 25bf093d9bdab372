"""The columns of each file by themselves. Files with the same columns are checked once, at the first of them."""

from collections.abc import Iterator
from typing import Final

from app.domain.model.names import ROW_MARKER
from app.verify.checked_file import CheckedFile, FileColumn
from app.verify.codes import FindingCode
from app.verify.finding import Finding
from app.verify.table_view import TableView

_LIKE_MARKER: Final = frozenset({"rowmarker"})
_INTEGERS: Final = frozenset({"byte", "short", "integer", "long"})
_DOUBTFUL: Final = ("halffloat", "uint64", "time32[", "time64[", "timestamp[ns")


def column_layouts(view: TableView) -> Iterator[Finding]:
    """Check the row marker, and names and types of the columns."""
    for file in _first_of_each_layout(view):
        for code, detail in [*_marker(file), *_names(file), *_types(file)]:
            yield view.finding(code, detail, file.file.path)


def key_columns(view: TableView) -> Iterator[Finding]:
    """Check that each file has the key columns that the metadata names."""
    keys = view.metadata.key_columns if view.metadata is not None else ()
    for file in _first_of_each_layout(view):
        names = {column.name for column in file.data_columns()}
        folded = {name.casefold(): name for name in names}
        for key in keys:
            if key in names:
                continue
            if key.casefold() in folded:
                detail = f"the metadata has {key!r}, the file has {folded[key.casefold()]!r}"
                yield view.finding(FindingCode.KEY_DIFFERS_IN_CASE, detail, file.file.path)
            else:
                detail = f"the file has no column {key!r}, which keyColumns names"
                yield view.finding(FindingCode.KEY_NOT_A_COLUMN, detail, file.file.path)


def _first_of_each_layout(view: TableView) -> Iterator[CheckedFile]:
    seen: set[tuple[FileColumn, ...]] = set()
    for file in view.checked:
        if file.columns not in seen:
            seen.add(file.columns)
            yield file


def _marker(file: CheckedFile) -> Iterator[tuple[FindingCode, str]]:
    marker = file.marker
    if marker is None:
        for column in file.columns:
            if "".join(filter(str.isalnum, column.name)).casefold() in _LIKE_MARKER:
                yield FindingCode.MARKER_MISSPELLED, f"the column is named {column.name!r}"
        return
    if marker.name != ROW_MARKER:
        yield FindingCode.MARKER_CASE, f"the column is named {marker.name!r}"
    if file.columns[-1] is not marker:
        position = file.columns.index(marker) + 1
        yield FindingCode.MARKER_NOT_LAST, f"it is column {position} of {len(file.columns)}"
    # Delimited text has no types: whether a marker is a number there, only its values say.
    if file.footer is not None and marker.type not in _INTEGERS:
        yield FindingCode.MARKER_TYPE, f"its type is {marker.stored}"


def _names(file: CheckedFile) -> Iterator[tuple[FindingCode, str]]:
    seen: dict[str, str] = {}
    for column in file.columns:
        if not column.name.strip():
            yield FindingCode.BLANK_COLUMN_NAME, f"the name of column {file.columns.index(column) + 1} is blank"
        elif (other := seen.setdefault(column.name.casefold(), column.name)) != column.name:
            yield FindingCode.COLUMNS_DIFFER_IN_CASE, f"{other!r} and {column.name!r}"
    names = [column.name for column in file.columns]
    for name in sorted({name for name in names if names.count(name) > 1 and name.strip()}):
        yield FindingCode.COLUMNS_DIFFER_IN_CASE, f"{names.count(name)} columns are named {name!r}"
    if not any(not column.is_marker for column in file.columns):
        yield FindingCode.NO_COLUMNS, "the file has no data column"


def _types(file: CheckedFile) -> Iterator[tuple[FindingCode, str]]:
    for column in file.data_columns():
        if column.type is None:
            yield FindingCode.UNSUPPORTED_TYPE, f"column {column.name!r} has type {column.stored}"
        elif column.stored.startswith(_DOUBTFUL):
            yield FindingCode.DOUBTFUL_TYPE, f"column {column.name!r} has type {column.stored}"
