"""Faults of columns: the row marker, names, types, and changes from file to file."""

from pathlib import Path
from typing import Final

import pyarrow as pa

from mirrorgate_zone.verify.codes import FindingCode
from tests.verify.planting import plants, plants_each
from tests.verify.zones import Zone, rows

FIRST_FILES: Final = {
    "marker_first": (FindingCode.MARKER_NOT_LAST, rows(1).select(["__rowMarker__", "id", "name"])),
    "marker_of_floats": (FindingCode.MARKER_TYPE, rows(1, marker=None, __rowMarker__=pa.array([0.0]))),
    "marker_in_lower_case": (FindingCode.MARKER_CASE, rows(1).rename_columns(["id", "name", "__rowmarker__"])),
    "marker_without_underscores": (
        FindingCode.MARKER_MISSPELLED,
        rows(1).rename_columns(["id", "name", "_row_marker_"]),
    ),
    "columns_of_one_name": (FindingCode.COLUMNS_DIFFER_IN_CASE, rows(1, marker=None, Name=pa.array(["x"]))),
    "blank_name": (FindingCode.BLANK_COLUMN_NAME, rows(1, marker=None, **{" ": pa.array([1])})),
    "list_column": (FindingCode.UNSUPPORTED_TYPE, rows(1, marker=None, tags=pa.array([["a"]]))),
    "struct_column": (FindingCode.UNSUPPORTED_TYPE, rows(1, marker=None, place=pa.array([{"city": "a"}]))),
    "column_without_a_type": (FindingCode.UNSUPPORTED_TYPE, rows(1, marker=None, nothing=pa.nulls(1))),
    "decimal_of_50_digits": (
        FindingCode.UNSUPPORTED_TYPE,
        rows(1, marker=None, amount=pa.nulls(1, pa.decimal256(50, 2))),
    ),
    "nanoseconds": (FindingCode.DOUBTFUL_TYPE, rows(1, marker=None, at=pa.array([1], pa.timestamp("ns")))),
    "time_of_day": (FindingCode.DOUBTFUL_TYPE, rows(1, marker=None, at=pa.array([1], pa.time64("us")))),
}
plants_each(FIRST_FILES, lambda zone, content: zone.table().file(1, content))

LATER_FILES: Final = {
    "column_in_capitals": (FindingCode.COLUMN_CASE_CHANGED, rows(3).rename_columns(["id", "NAME", "__rowMarker__"])),
    "column_dropped": (FindingCode.COLUMN_MISSING, rows(3).drop_columns("name")),
}
plants_each(LATER_FILES, lambda zone, content: zone.clean().file(3, content))


@plants(FindingCode.NO_COLUMNS)
def only_the_marker(zone: Zone) -> Path:
    return zone.table(keys=None).file(1, rows(1).select(["__rowMarker__"]))


@plants(FindingCode.TYPE_CHANGED)
def wider_type(zone: Zone) -> Path:
    table = zone.table()
    table.file(1, rows(1, marker=None, amount=pa.array([1], pa.int32())))
    table.file(2, rows(2, marker=None, amount=pa.array([1], pa.int32())))
    return table.file(3, rows(3, marker=None, amount=pa.array([1], pa.int64())))


def required(name: str, table: pa.Table) -> pa.Table:
    """Return the table with one column declared as REQUIRED."""
    fields = [field.with_nullable(field.name != name) for field in table.schema]
    return table.cast(pa.schema(fields))


@plants(FindingCode.REQUIRED_COLUMN_MISSING)
def required_column_dropped(zone: Zone) -> Path:
    table = zone.table()
    table.file(1, required("name", rows(1)))
    return table.file(2, rows(2).drop_columns("name"))


@plants(FindingCode.NEW_REQUIRED_COLUMN)
def required_column_added(zone: Zone) -> Path:
    table = zone.table()
    table.file(1, rows(1).drop_columns("name"))
    return table.file(2, required("name", rows(2)))
