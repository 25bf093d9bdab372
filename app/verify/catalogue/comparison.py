"""Findings about the comparison with a Delta table (`--against`)."""

from collections.abc import Mapping
from typing import Final

from app.verify.catalogue.entry import Entry, advice, error, warning
from app.verify.codes import FindingCode

_TRACE: Final = (
    "The file that is named changed the key last: look at what it and the files around it did with it. If mirroring "
    "has not applied all files yet, wait and compare again."
)

COMPARISON: Final[Mapping[FindingCode, Entry]] = {
    FindingCode.AGAINST_TABLE_MISSING: error(
        "There is no Delta table for a table of the zone.",
        "Give --against the folder that holds `<schema>/<table>` or `<table>`. If the table is new, wait until "
        "mirroring has created it.",
    ),
    FindingCode.AGAINST_UNREADABLE: error(
        "The Delta table cannot be read: it is damaged, or it needs a feature that deltalake does not read. Deletion "
        "vectors and column mapping are read.",
        "The detail names the cause. If it is a feature, compare with a copy of the table without it.",
    ),
    FindingCode.AGAINST_SCHEMA_DIFFERS: error(
        "The Delta table has other columns than the files of the zone, or columns with another kind of value. Types of "
        "one kind, such as decimals of two scales, are no difference.",
        "Drop and recreate the table folder to rename, remove or change a column. Rows are compared by the columns "
        "that both have.",
    ),
    FindingCode.AGAINST_MISSING_ROW: error(
        "Keys have a row in the zone and none in the Delta table.",
        _TRACE,
    ),
    FindingCode.AGAINST_EXTRA_ROW: error(
        "Keys have a row in the Delta table and none in the zone.",
        _TRACE,
    ),
    FindingCode.AGAINST_DIFFERS: error(
        "Keys have rows on both sides, with other values or in other numbers.",
        _TRACE,
    ),
    FindingCode.AGAINST_NOT_COMPARED: error(
        "A table cannot be compared, because its metadata or a file of it cannot be read.",
        "Correct the file that is named, and compare again.",
    ),
    FindingCode.AGAINST_STOPPED: warning(
        "Only the files before a missing or unusable one are compared: mirroring stops the table there, too.",
        "Correct the file, and compare again.",
    ),
    FindingCode.AGAINST_INCOMPLETE: advice(
        "The first files of the table are no longer in the zone. Only keys that the present files change are compared.",
        "Nothing, if mirroring has removed files that it has consumed.",
    ),
    FindingCode.AGAINST_BEHIND: advice(
        "The Delta table is a mirror of Mirrorgate that has not applied all files. It is compared with the files that "
        "it has applied.",
        "Run the mirror, and compare again.",
    ),
}
