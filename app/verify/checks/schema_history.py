"""How the columns of a table change from file to file, by the rules by which Fabric merges schemas."""

from collections.abc import Iterator
from dataclasses import dataclass

from app.verify.checked_file import CheckedFile, FileColumn
from app.verify.codes import FindingCode
from app.verify.finding import Finding
from app.verify.table_view import TableView


@dataclass(slots=True)
class _TableColumn:
    """A column of the table so far: its first name and type, and where it was last missing."""

    name: str
    type: str | None
    required: bool
    is_missing: bool = False


def schema_history(view: TableView) -> Iterator[Finding]:
    """Compare each file with the union of the columns of all earlier files."""
    table: dict[str, _TableColumn] = {}
    former: tuple[FileColumn, ...] | None = None
    is_text = view.metadata is not None and view.metadata.is_delimited_text
    for file in view.checked:
        if file.footer is None and not is_text:
            continue  # text among Parquet files, which is reported and has no types to compare
        # Files with equal columns share one tuple, so most files cost one comparison.
        if file.columns is not former:
            for code, detail in [*_changed(table, file, is_first=former is None), *_missing(table, file)]:
                yield view.finding(code, detail, file.file.path)
            former = file.columns


def _changed(table: dict[str, _TableColumn], file: CheckedFile, *, is_first: bool) -> Iterator[tuple[FindingCode, str]]:
    """Check the file's columns against the table's, and add the new ones to it."""
    # Of columns that differ in letter case only, the first one counts.
    columns = {column.name.casefold(): column for column in reversed([*file.data_columns()])}
    for column in reversed(columns.values()):
        known = table.get(column.name.casefold())
        if known is None:
            table[column.name.casefold()] = _TableColumn(column.name, column.type, column.required)
            if column.required and not is_first:
                yield FindingCode.NEW_REQUIRED_COLUMN, f"column {column.name!r} is new and REQUIRED"
            continue
        if None not in (known.type, column.type) and known.type != column.type:
            detail = f"column {column.name!r} was {known.type} and is {column.type}: SchemaMergeFailure"
            yield FindingCode.TYPE_CHANGED, detail
        if known.name != column.name:
            yield FindingCode.COLUMN_CASE_CHANGED, f"column {known.name!r} is now {column.name!r}"
        known.required = known.required and column.required
        known.is_missing = False


def _missing(table: dict[str, _TableColumn], file: CheckedFile) -> Iterator[tuple[FindingCode, str]]:
    """Find columns of the table that the file lacks, once until they are back."""
    present = {column.name.casefold() for column in file.data_columns()}
    for folded, known in table.items():
        if folded not in present and not known.is_missing:
            known.is_missing = True
            if known.required:
                yield FindingCode.REQUIRED_COLUMN_MISSING, f"the file lacks {known.name!r}, which is REQUIRED"
            else:
                yield FindingCode.COLUMN_MISSING, f"the file lacks {known.name!r}"
