"""Errors of a change against its table: columns, keys and values."""

from collections.abc import Mapping
from typing import Final

from app.errors.catalogue.entry import ROWS_FORMAT, Entry
from app.errors.codes import Code, Kind

ROWS: Final[Mapping[Code, Entry]] = {
    Code.UNKNOWN_COLUMN: Entry(
        Kind.INVALID,
        "The message has a column that the table does not have.",
        "Add the column with PUT /v1/tables/{table} (all columns plus the new nullable one), or set the table option "
        "new_columns=add_as_string (docs/tables.md). Then send the request again.",
    ),
    Code.BAD_VALUE: Entry(
        Kind.INVALID,
        "The column's declared type cannot represent a value exactly.",
        "Correct the value at the pointer. To change the type of the column, rebuild the table from its row images "
        "(`mirrorgate tables rebuild`); without them, recreate it, which empties it, and load it again.",
    ),
    Code.VALUE_TOO_LARGE: Entry(
        Kind.INVALID,
        "A value is longer than MIRRORGATE_MAX_VALUE_BYTES.",
        "Shorten the value, leave the column out with the table option `exclude`, or ask the operator to raise the "
        "limit.",
    ),
    Code.NULL_VALUE: Entry(
        Kind.INVALID,
        "A column declared `nullable: false` is NULL or missing.",
        "Send a value, or make the column nullable with PUT /v1/tables/{table}, which keeps all rows.",
    ),
    Code.NULL_KEY: Entry(Kind.INVALID, "A key column is NULL.", "Send a value for every key column."),
    Code.MISSING_KEY: Entry(
        Kind.INVALID,
        "The image does not have every key column.",
        "Configure the source tool to include the key columns in its images.",
        {ROWS_FORMAT: "Give every key column of the table in each row."},
    ),
    Code.NO_KEY: Entry(
        Kind.INVALID,
        "The table has no key columns, so it accepts inserts only.",
        "Register the table again with key_columns. You can add keys to a keyless table once.",
    ),
    Code.OLD_KEY_MISSING: Entry(
        Kind.INVALID,
        "An update changes the key but does not give the old one.",
        "Configure the source tool to include the key columns in before images.",
    ),
    Code.AMBIGUOUS_KEY_CHANGE: Entry(
        Kind.CONFLICT,
        "Updates in the request change keys, and it is unclear whether one row moved twice or two rows moved at once.",
        "Configure the source tool to write full before images. Or set the table option partial_updates=complete and "
        "load the table's rows, so that each row has a row image (docs/tables.md).",
    ),
    Code.KEY_IN_USE: Entry(
        Kind.INVALID,
        "An update changes a key to one that another row has.",
        "Send all updates of the statement in one request. If the source no longer has the other row, send its delete "
        "first.",
    ),
    Code.INCOMPLETE_UPDATE: Entry(
        Kind.INVALID,
        "An update lacks the new value of a column; the landed row would overwrite that column with NULL.",
        "Configure the source tool to write full after images, or set the table option partial_updates=complete, "
        "which takes missing values from the row image if one has them (docs/tables.md).",
        {
            ROWS_FORMAT: "Give every column of the table: null in a column without a value. To send only the columns "
            "that change, set the table option partial_updates=complete, which keeps the others (docs/tables.md)."
        },
    ),
    Code.INCOMPLETE_INSERT: Entry(
        Kind.INVALID,
        "An insert lacks a column.",
        "Configure the source tool to write full rows on insert.",
        {ROWS_FORMAT: "Give every required column a value. Only a nullable column can be left out of an insert."},
    ),
    Code.TABLE_MISMATCH: Entry(
        Kind.INVALID,
        "Two parts of the request name different tables.",
        "Omit `?table=`, or set it to the table that the message names.",
    ),
}
