"""Errors about tables: names, schemas, states, generations and files."""

from collections.abc import Mapping
from typing import Final

from app.errors.catalogue.entry import Entry
from app.errors.codes import Code, Kind

TABLES: Final[Mapping[Code, Entry]] = {
    Code.UNKNOWN_TABLE: Entry(
        Kind.MISSING,
        "The table is not registered, or the key's table patterns do not include it.",
        "Register the table with PUT /v1/tables/{table}, or use a key whose table patterns include it.",
    ),
    Code.BAD_NAME: Entry(
        Kind.INVALID,
        "A table or column name violates the naming rules.",
        "Choose a name within the rules in docs/tables.md.",
    ),
    Code.RESERVED_NAME: Entry(
        Kind.INVALID,
        "A column is named `__rowMarker__`, which is reserved for the row marker.",
        "Rename the source column, or leave it out.",
    ),
    Code.BAD_TYPE: Entry(
        Kind.INVALID,
        "A column type is not one of Mirrorgate's column types.",
        "Use boolean, int16, int32, int64, float32, float64, decimal(p,s), date, timestamp, string, binary or json.",
    ),
    Code.BAD_OPTION: Entry(
        Kind.INVALID,
        "A table option is unknown, or its value is not one of its allowed values.",
        "Correct the option as the detail says. docs/tables.md lists all options with their values.",
    ),
    Code.BAD_SCHEMA: Entry(
        Kind.INVALID,
        "The declared columns and keys do not make a valid table.",
        "Declare at least one column, each column once, and keys that are among the columns.",
    ),
    Code.INCOMPATIBLE_SCHEMA: Entry(
        Kind.CONFLICT,
        "The new schema changes a type, a key or a required column of an existing table.",
        "Follow the detail. Otherwise keep the declared columns and add only nullable ones. `mirrorgate tables "
        "rebuild` changes types and keys of a table with row images, and keeps its rows. Recreating a table empties "
        "it.",
    ),
    Code.COLUMN_RENAMED: Entry(
        Kind.CONFLICT,
        "The metadata replaces a column with one of the same type, as a rename does. Mirroring cannot rename a column, "
        "so earlier rows would be NULL under the new name.",
        "If it is a different column, add it with PUT /v1/tables/{table}, then send this request again. If it is the "
        "same, rebuild the table from its row images under the new name (`mirrorgate tables rebuild --rename`), or "
        "recreate it, which empties it, and load it again.",
    ),
    Code.SCHEMA_UNKNOWN: Entry(
        Kind.CONFLICT,
        "A data message names a schema id that no accepted metadata message had, for any table that the key may use.",
        "Send the metadata (MD) message with that schema id first, then this request again. Or name the table with "
        "`?table=`.",
    ),
    Code.AMBIGUOUS_SCHEMA_ID: Entry(
        Kind.CONFLICT,
        "Several tables have the schema id of a data message, and nothing else identifies the table.",
        "Name the table with `?table=`, or send its metadata (MD) message before its data in the same request.",
    ),
    Code.SCHEMA_MISMATCH: Entry(
        Kind.CONFLICT,
        "A data message uses a schema version that the table does not know, or a column of an Arrow stream has a type "
        "that the table's column does not accept.",
        "For Replicate, send the metadata (MD) message with that schema id first. For Arrow, write the column in the "
        "table's type.",
    ),
    Code.SOURCE_CASE_MISMATCH: Entry(
        Kind.CONFLICT,
        "The source's table name differs from a registered one only in letter case, so it may be a different table.",
        "List the source, in its exact spelling, in the option `sources` of the table that it feeds: the one with the "
        "similar name, or a table under another name (docs/tables.md).",
    ),
    Code.STALE_METADATA: Entry(
        Kind.CONFLICT,
        "The metadata message is older than the metadata that its task sent before, and it was never accepted.",
        "Skip the message: the gateway has newer metadata of the same task. Start the task's metadata topic at its "
        "newest message.",
    ),
    Code.RELOAD_REQUIRES_RECREATE: Entry(
        Kind.CONFLICT,
        "The request has snapshot rows for a table that already has other changes; inserting them would duplicate "
        "rows.",
        "Set the table option `reload` to `upsert`, or load the rows in a load session (docs/loads.md): both keep the "
        "rows. Or recreate the table, which empties it, before a full reload.",
    ),
    Code.TABLE_NOT_ACCEPTING: Entry(
        Kind.CONFLICT,
        "The table is being dropped, or was dropped.",
        "Wait until the drop has finished, then register the table again.",
    ),
    Code.WRONG_TABLE_STATE: Entry(
        Kind.CONFLICT,
        "The table's state does not allow this operation.",
        "Check the state in the table's status. If the table is being dropped, wait until the drop has finished.",
    ),
    Code.GENERATION_MISMATCH: Entry(
        Kind.CONFLICT,
        "The operation names a generation that is not the table's current one.",
        "Read the current generation in the table's status. If the operation is meant for it, name it in the request.",
    ),
    Code.UNKNOWN_BATCH: Entry(
        Kind.MISSING,
        "No batch has this table, generation and sequence.",
        "Use the values exactly as the receipt gave them.",
    ),
    Code.UNKNOWN_FILE: Entry(
        Kind.MISSING,
        "The table's current generation has no published file with this number.",
        "List the files with GET /v1/tables/{table}/files.",
    ),
    Code.PAYLOADS_PURGED: Entry(
        Kind.CONFLICT,
        "Retention deleted the staged payloads of the file, so the drain cannot build it again.",
        "Rebuild the table from its row images (`mirrorgate tables rebuild`). Without them, recreate it, which empties "
        "it, and load it again.",
    ),
    Code.NOT_COMPARABLE: Entry(
        Kind.INVALID,
        "A check compares columns whose text differs between databases, whose values are masked or that have left the "
        "source, or a table without key columns, or the mirror of a history.",
        "Leave floating-point, JSON and masked columns, and those that left the source, out of `columns`. Compare a "
        "history with its row images. Tables without keys can only be counted.",
    ),
    Code.BAD_CHECK: Entry(
        Kind.INVALID,
        "A check has both or neither of `buckets` and `rows`, names of buckets of several lengths, or too many rows.",
        "Send `buckets` first, all with names of the length `digits`, then `rows` of those that differ.",
    ),
    Code.NO_ROW_IMAGES: Entry(
        Kind.CONFLICT,
        "The table does not have a row image of each of its rows, and the request needs its present rows.",
        "Register new tables with the option row_images=on. For a table with rows, set the option and begin a "
        "backfill (POST /v1/tables/{table}/row-images/backfill, or `mirrorgate tables backfill-images`), which reads "
        "its staged payloads or its Delta mirror; or recreate it with the option and load it from its source.",
    ),
    Code.OLD_ROW_IMAGES: Entry(
        Kind.CONFLICT,
        "The table has row images from before that it must not use, and they are too many to delete in one request.",
        "Repeat the request in some minutes: the drain deletes the images of a table that keeps none, 5,000 at a time.",
    ),
    Code.BACKFILL_STOPPED: Entry(
        Kind.CONFLICT,
        "A backfill of row images was cancelled or its images were discarded, or another process continues or has "
        "completed it.",
        "Read its progress in the table's status. Begin the backfill again to continue it.",
    ),
    Code.MIRROR_DUPLICATE_KEYS: Entry(
        Kind.CONFLICT,
        "A Delta table has several rows of one key, so which of them is the table's row is unknown.",
        "The source has repeated inserts, which land with marker 0. Recreate the table with insert_marker=upsert and "
        "row_images=on, and load it again.",
    ),
}
