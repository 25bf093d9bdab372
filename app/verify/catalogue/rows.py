"""Findings about rows and keys."""

from collections.abc import Mapping
from typing import Final

from app.verify.catalogue.entry import Entry, error, warning
from app.verify.codes import FindingCode

_LOST: Final = (
    "Look for what the publisher lost, sent twice or reordered before these rows: a file that replaced another one, a "
    "restart from an old position, a repeated upload. Reload the table if rows are missing."
)

ROWS: Final[Mapping[FindingCode, Entry]] = {
    FindingCode.MARKER_NULL: error(
        "Rows have no value in `__rowMarker__`, although the file has the column.",
        "Write 0, 1, 2 or 4 in every row, or leave the column out of a file that has inserts only.",
    ),
    FindingCode.MARKER_UNKNOWN: error(
        "Rows have a value in `__rowMarker__` other than 0 (insert), 1 (update), 2 (delete) and 4 (upsert).",
        "Write 0, 1, 2 or 4 in every row.",
    ),
    FindingCode.MARKER_WITHOUT_KEYS: error(
        "Rows are updates, deletes or upserts, and the table has no key columns to find their rows by.",
        "Add `keyColumns` to `_metadata.json`, or publish inserts only.",
    ),
    FindingCode.KEY_NULL: error(
        "Rows have NULL in a key column. NULL equals nothing, so such a row is never updated or deleted.",
        "Choose key columns that always have a value, or write a value for it in the publisher.",
    ),
    FindingCode.DUPLICATE_INSERT: error(
        "Rows are inserts (marker 0) of a key that already has a row from an earlier file. Mirroring checks nothing "
        "and adds a second row.",
        "Write upserts (marker 4) where a row can be sent twice. " + _LOST,
    ),
    FindingCode.DUPLICATE_IN_FILE: error(
        "Rows are inserts (marker 0) of a key that already has a row in the same file. Mirroring adds a second row.",
        "Write upserts (marker 4), or remove duplicates before writing the file. Check that the key columns identify a "
        "row.",
    ),
    FindingCode.UPDATE_OF_MISSING_ROW: warning(
        "Rows are updates (marker 1) of a key that has no row. Mirroring inserts them.",
        _LOST,
    ),
    FindingCode.DELETE_OF_MISSING_ROW: warning(
        "Rows are deletes (marker 2) of a key that has no row. Mirroring does nothing.",
        _LOST,
    ),
    FindingCode.UPDATE_WITHOUT_VALUES: warning(
        "Rows are updates or upserts in which every column but the key is NULL: probably partial rows. Mirroring "
        "replaces the whole row by them.",
        "Write full rows in updates and upserts. If these are deletes, mark them with 2.",
    ),
    FindingCode.ROWS_UNREADABLE: error(
        "The footer of a file can be read, and its rows cannot. The file stops the table.",
        "Put a valid file with the same rows at the same name.",
    ),
}
