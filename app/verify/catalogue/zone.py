"""Findings about the zone as a whole, and about reading it."""

from collections.abc import Mapping
from typing import Final

from app.verify.catalogue.entry import Entry, advice, error, warning
from app.verify.codes import FindingCode

ZONE: Final[Mapping[FindingCode, Entry]] = {
    FindingCode.PARTNER_EVENTS_MISSING: advice(
        "The zone has no `_partnerEvents.json`, which Microsoft strongly recommends.",
        "Write it once at the root of the zone, with `partnerName` and `sourceInfo.sourceType`.",
    ),
    FindingCode.PARTNER_EVENTS_DAMAGED: warning(
        "`_partnerEvents.json` is not a JSON object with the texts `partnerName` and `sourceInfo.sourceType`.",
        "Replace it by a valid file: one for the whole zone, at its root.",
    ),
    FindingCode.FILE_OUTSIDE_TABLE: warning(
        "A file lies outside of any table folder, where mirroring does not read it.",
        "Move data into a folder of its table, and delete what is no data. Names that start with `_` are ignored.",
    ),
    FindingCode.TOO_MANY_TABLES: error(
        "The zone has more than 1,000 tables, the limit of a mirrored database.",
        "Divide the tables between several mirrored databases.",
    ),
    FindingCode.TABLE_NAMES_DIFFER_IN_CASE: warning(
        "Two table folders have names that differ in letter case only.",
        "Give each table a name that differs from all others without regard to letter case.",
    ),
    FindingCode.EMPTY_SCHEMA_FOLDER: advice(
        "A `<name>.schema` folder has no table folder.",
        "Delete the folder, or create the tables of the schema in it.",
    ),
    FindingCode.OLD_HIDDEN_FILES: advice(
        "Hidden files (in `_scratchPad`, or with a name like `_temp…`) are older than a week. Nothing reads them, and "
        "they cost storage.",
        "Make sure that no publisher writes them any more, and delete them.",
    ),
    FindingCode.CANNOT_READ: error(
        "The store or the file system did not let the command read this.",
        "Check the rights of the account that runs the command and whether the store is reachable, and run it again.",
    ),
    FindingCode.NOT_CHECKED: advice(
        "This was not checked: it moved while it was read, or is too large.",
        "Run the command again if it moved. Publish large tables as Parquet.",
    ),
    FindingCode.CHECK_FAILED: error(
        "A check ended early because of an error in it. The other checks of the zone are complete.",
        "Report it with the detail, and with the output of `mirrorgate --version`.",
    ),
}
