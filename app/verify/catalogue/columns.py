"""Findings about columns: the row marker, names, types, and how they change from file to file."""

from collections.abc import Mapping
from typing import Final

from app.verify.catalogue.entry import Entry, advice, error, warning
from app.verify.codes import FindingCode

COLUMNS: Final[Mapping[FindingCode, Entry]] = {
    FindingCode.NO_COLUMNS: error(
        "A data file has no column besides the row marker.",
        "Write at least the key columns.",
    ),
    FindingCode.MARKER_NOT_LAST: error(
        "`__rowMarker__` is not the last column. It was first in the preview of 2025, and must be last today.",
        "Write `__rowMarker__` as the last column.",
    ),
    FindingCode.MARKER_TYPE: error(
        "`__rowMarker__` is not a column of whole numbers.",
        "Write it as int32 with the values 0, 1, 2 and 4.",
    ),
    FindingCode.MARKER_CASE: error(
        "The row marker has other letter case than `__rowMarker__`, so that it can pass for a data column.",
        "Name the column exactly `__rowMarker__`.",
    ),
    FindingCode.MARKER_MISSPELLED: warning(
        "A column has a name like that of the row marker. Without `__rowMarker__`, every row is an insert.",
        "Name the row marker exactly `__rowMarker__`. Nothing is to do if the column is data.",
    ),
    FindingCode.COLUMNS_DIFFER_IN_CASE: error(
        "Two columns of a file have the same name, or names that differ in letter case only.",
        "Give each column a name that differs from all others without regard to letter case.",
    ),
    FindingCode.COLUMN_CASE_CHANGED: warning(
        "A column has other letter case than in an earlier file.",
        "Write a column's name in the same letter case in every file.",
    ),
    FindingCode.BLANK_COLUMN_NAME: error(
        "A column has no name.",
        "Give every column a name.",
    ),
    FindingCode.UNSUPPORTED_TYPE: error(
        "A column has a type that open mirroring does not read: a list, struct or map, no type at all, or a decimal of "
        "more than 38 digits.",
        "Write lists, structs and maps as JSON texts, and give other columns a simple Parquet type.",
    ),
    FindingCode.DOUBTFUL_TYPE: warning(
        "A column has a Parquet type that Delta tables do not have: nanosecond timestamps, times of day, half floats "
        "or unsigned 64-bit numbers. Readers differ in what they make of it.",
        "Write timestamps in microseconds, times as text, and numbers as int64, double or decimal.",
    ),
    FindingCode.TYPE_CHANGED: error(
        "A column has another type than in an earlier file. The table stops with `SchemaMergeFailure`.",
        "Write the file again with the former type, at the same name. For a new type, delete the folder, wait until "
        "the table is gone, and create it again with a full load.",
    ),
    FindingCode.REQUIRED_COLUMN_MISSING: error(
        "A file lacks a column that an earlier file declares as REQUIRED. The table stops.",
        "Write the column into every file. To drop it, create the table again.",
    ),
    FindingCode.NEW_REQUIRED_COLUMN: warning(
        "A later file adds a column that is REQUIRED, although earlier rows have no value for it.",
        "Add columns as OPTIONAL (nullable).",
    ),
    FindingCode.COLUMN_MISSING: advice(
        "A file lacks a column that an earlier file has. Its rows get NULL there.",
        "Write every column into every file. Nothing is to do if the column was dropped at the source.",
    ),
    FindingCode.BARE_FILES_FASTER: advice(
        "The files of an insert-only table have the column `__rowMarker__`, with 0 in every row. Mirroring reads files "
        "without it faster.",
        "Leave the column out until the first update or delete.",
    ),
}
