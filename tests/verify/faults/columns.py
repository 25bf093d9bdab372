"""Faults of columns: the row marker, names, types, and changes from file to file."""

from pathlib import Path

import pyarrow as pa

from mirrorgate_zone.verify.codes import FindingCode
from tests.verify.planting import plants
from tests.verify.zones import Zone, rows


def required(name: str, table: pa.Table) -> pa.Table:
    """Return the table with one column declared as REQUIRED."""
    fields = [field.with_nullable(field.name != name) for field in table.schema]
    return table.cast(pa.schema(fields))


@plants(FindingCode.NO_COLUMNS)
def only_the_marker(zone: Zone) -> Path:
    return zone.table(keys=None).file(1, rows(1).select(["__rowMarker__"]))


@plants(FindingCode.MARKER_NOT_LAST)
def marker_first(zone: Zone) -> Path:
    return zone.table().file(1, rows(1).select(["__rowMarker__", "id", "name"]))


@plants(FindingCode.MARKER_TYPE)
def marker_of_floats(zone: Zone) -> Path:
    table = rows(1, marker=None).append_column("__rowMarker__", pa.array([0.0]))
    return zone.table().file(1, table)


@plants(FindingCode.MARKER_CASE)
def marker_in_lower_case(zone: Zone) -> Path:
    return zone.table().file(1, rows(1).rename_columns(["id", "name", "__rowmarker__"]))


@plants(FindingCode.MARKER_MISSPELLED)
def marker_without_underscores(zone: Zone) -> Path:
    return zone.table().file(1, rows(1).rename_columns(["id", "name", "_row_marker_"]))


@plants(FindingCode.COLUMNS_DIFFER_IN_CASE)
def columns_of_one_name(zone: Zone) -> Path:
    return zone.table().file(1, rows(1, marker=None, Name=pa.array(["x"])))


@plants(FindingCode.COLUMN_CASE_CHANGED)
def column_in_capitals(zone: Zone) -> Path:
    return zone.clean().file(3, rows(3).rename_columns(["id", "NAME", "__rowMarker__"]))


@plants(FindingCode.BLANK_COLUMN_NAME)
def blank_name(zone: Zone) -> Path:
    return zone.table().file(1, rows(1, marker=None, **{" ": pa.array([1])}))


@plants(FindingCode.UNSUPPORTED_TYPE)
def list_column(zone: Zone) -> Path:
    return zone.table().file(1, rows(1, marker=None, tags=pa.array([["a"]])))


@plants(FindingCode.UNSUPPORTED_TYPE)
def struct_column(zone: Zone) -> Path:
    return zone.table().file(1, rows(1, marker=None, place=pa.array([{"city": "a"}])))


@plants(FindingCode.UNSUPPORTED_TYPE)
def column_without_a_type(zone: Zone) -> Path:
    return zone.table().file(1, rows(1, marker=None, nothing=pa.nulls(1)))


@plants(FindingCode.UNSUPPORTED_TYPE)
def decimal_of_50_digits(zone: Zone) -> Path:
    return zone.table().file(1, rows(1, marker=None, amount=pa.nulls(1, pa.decimal256(50, 2))))


@plants(FindingCode.DOUBTFUL_TYPE)
def nanoseconds(zone: Zone) -> Path:
    return zone.table().file(1, rows(1, marker=None, at=pa.array([1], pa.timestamp("ns"))))


@plants(FindingCode.DOUBTFUL_TYPE)
def time_of_day(zone: Zone) -> Path:
    return zone.table().file(1, rows(1, marker=None, at=pa.array([1], pa.time64("us"))))


@plants(FindingCode.TYPE_CHANGED)
def wider_type(zone: Zone) -> Path:
    table = zone.table()
    table.file(1, rows(1, marker=None, amount=pa.array([1], pa.int32())))
    table.file(2, rows(2, marker=None, amount=pa.array([1], pa.int32())))
    return table.file(3, rows(3, marker=None, amount=pa.array([1], pa.int64())))


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


@plants(FindingCode.COLUMN_MISSING)
def column_dropped(zone: Zone) -> Path:
    return zone.clean().file(3, rows(3).drop_columns("name"))
