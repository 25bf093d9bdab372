"""Errors of the drain. They appear in its log and in the state reason of a table that it stopped."""

from collections.abc import Mapping
from typing import Final

from app.errors.catalogue.entry import Entry
from app.errors.codes import Code, Kind

PUBLICATION: Final[Mapping[Code, Entry]] = {
    Code.LANDING_ZONE_AWAY: Entry(
        Kind.UNAVAILABLE,
        "The landing zone disappeared while the drain was running: it is not mounted, not reachable, or replaced by "
        "another one.",
        "Mount the landing zone again. The drain then continues without a restart.",
    ),
    Code.STORAGE_FAILED: Entry(
        Kind.BROKEN,
        "The drain could not read or write the landing zone.",
        "The detail has the answer of the operating system or storage service. The drain tries the table again.",
    ),
    Code.STALE_EPOCH: Entry(
        Kind.BROKEN,
        "The drain's claim of the table is over: another drain has claimed it, or the database was restarted, restored "
        "or failed over.",
        "You need not do anything: the new owner, or this drain with a new claim, continues.",
    ),
    Code.FOREIGN_FILE: Entry(
        Kind.BROKEN,
        "A file that this gateway did not plan has the next file number.",
        "Find out who writes into the landing zone, move the file away, then release the table (docs/operations.md).",
    ),
    Code.LANDING_FOLDER_LOST: Entry(
        Kind.BROKEN,
        "The table's landing folder is missing, or belongs to another generation or gateway.",
        "Restore the folder and release the table, rebuild it from its row images (`mirrorgate tables rebuild`), or "
        "recreate it and load it again (docs/operations.md).",
    ),
    Code.LEDGER_BEHIND_ZONE: Entry(
        Kind.BROKEN,
        "The landing zone has files of the table that the database does not know, because the database has gone back: "
        "it was restored to an earlier point, or a standby took over that lacked the last transactions.",
        "Do not move these files away. Fabric has, or will have, rows that the gateway no longer knows: rebuild it "
        "from its row images (`mirrorgate tables rebuild`) and send again what the database lost, or recreate it and "
        "load it again (docs/backup.md).",
    ),
    Code.PAYLOAD_CORRUPT: Entry(
        Kind.BROKEN,
        "A staged payload does not match its recorded digest.",
        "Check the database's storage, and restore the database from a backup.",
    ),
    Code.BUILD_FAILED: Entry(
        Kind.BROKEN,
        "The drain could not build a landing file.",
        "Read the drain's log. The drain tries the file again.",
    ),
    Code.BROKEN_CHAIN: Entry(
        Kind.BROKEN,
        "A table's metadata chain is not consistent.",
        "Compare the database with a backup: recorded metadata was changed.",
    ),
}
