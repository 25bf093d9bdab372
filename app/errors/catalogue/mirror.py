"""Errors of the Delta mirror. They appear in its log, in its status, and in the findings of `mirrorgate verify`."""

from collections.abc import Mapping
from typing import Final

from app.errors.catalogue.entry import Entry
from app.errors.codes import Code, Kind

MIRROR: Final[Mapping[Code, Entry]] = {
    Code.NOT_MIRRORED: Entry(
        Kind.MISSING,
        "No mirror has reported the current generation of the table, or the API was not told where the Delta tables "
        "are.",
        "Start the mirror with the database of this gateway: `mirrorgate up --mirror` or `mirrorgate mirror run`. For "
        "rows, set MIRRORGATE_MIRROR_TARGET for the API too.",
    ),
    Code.MIRROR_MISSING: Entry(
        Kind.MISCONFIGURED,
        "The target holds no mirrored table, or no target is known.",
        "Give the folder or address of the Delta tables with --to or MIRRORGATE_MIRROR_TARGET. `mirrorgate mirror run "
        "--once ZONE --to TARGET` makes the tables.",
    ),
    Code.MIRROR_AWAY: Entry(
        Kind.UNAVAILABLE,
        "The target of the mirror cannot be read or written now.",
        "The detail has the answer of the operating system or storage service. Repeat the command when the target is "
        "available again.",
    ),
    Code.MIRROR_RUNNING: Entry(
        Kind.MISCONFIGURED,
        "Another mirror writes to the same target.",
        "Stop the process that the message names, or choose another target.",
    ),
    Code.UNKNOWN_VERSION: Entry(
        Kind.MISSING,
        "The table has no such version, no version at that time, or no version of that landing file.",
        "`mirrorgate mirror history TABLE` lists the versions of the table with their times and files.",
    ),
    Code.BAD_QUERY: Entry(
        Kind.INVALID,
        "The SQL is not valid, names an unknown table or column, or does more than read mirrored tables.",
        "Correct the SQL as the message says. A query reads mirrored tables only, by SELECT, in the SQL of DuckDB.",
    ),
    Code.LANDING_FILE_UNREADABLE: Entry(
        Kind.BROKEN,
        "A data file of the landing zone cannot be read: it is empty, incomplete or damaged, or its markers are wrong.",
        "Put a valid file at the same name. The mirror then continues with it.",
    ),
    Code.LANDING_METADATA_UNREADABLE: Entry(
        Kind.BROKEN,
        "The `_metadata.json` of a table folder is missing or cannot be read.",
        "Write the file again, with the key columns that the table had before.",
    ),
    Code.LANDING_FILE_GAP: Entry(
        Kind.BROKEN,
        "A file number is missing in the landing zone, so the files after it wait.",
        "Publish the missing file. If it is lost, drop the table folder, recreate it and load the table again.",
    ),
    Code.LANDING_ORDER_UNSUPPORTED: Entry(
        Kind.BROKEN,
        "The files of a table have no order that the mirror can rely on: their names are not numbers, or they are "
        "ordered by update time, which has no order for two files of one moment.",
        "Name the files by number (20 digits, from 1, without a gap) and remove `fileDetectionStrategy`.",
    ),
    Code.SCHEMA_MERGE_FAILURE: Entry(
        Kind.BROKEN,
        "A file has another type for a column than the files before it, or lacks a required column "
        "(Fabric's `SchemaMergeFailure`).",
        "Replace the file by one with the former columns, or drop the table folder, recreate it and load the table "
        "again.",
    ),
    Code.MIRROR_TYPE_UNSUPPORTED: Entry(
        Kind.BROKEN,
        "A column has a Parquet type that a mirrored table cannot have.",
        "Write the column with a supported type: complex values as JSON text, times as text.",
    ),
    Code.MIRROR_KEY_MISSING: Entry(
        Kind.BROKEN,
        "Rows are updates, deletes or upserts, and the table has no key columns, or the file lacks one of them.",
        "Declare the key columns in `_metadata.json`, and write them in every file.",
    ),
    Code.MIRROR_TARGET_FOREIGN: Entry(
        Kind.BROKEN,
        "The mirror's target has a Delta table that the mirror did not write, or a kept generation is in the way.",
        "Choose an empty target, or move the table away.",
    ),
}
