"""Errors in a body's syntax, or in the form of its messages: JSON, CSV, Arrow, Arcion, Replicate and plain rows."""

from collections.abc import Mapping
from typing import Final

from app.errors.catalogue.entry import ROWS_FORMAT, Entry
from app.errors.codes import Code, Kind

_EXISTS: Final = (
    "Give every column of the images an `exists` value: 1 if it is in `after`, 2 if in `before`, 3 if in both, 0 if in "
    "neither. An insert has 1, a delete 2."
)

BODIES: Final[Mapping[Code, Entry]] = {
    Code.MALFORMED_JSON: Entry(
        Kind.MALFORMED,
        "The body is not valid JSON in one of the accepted framings.",
        "Send one object, an array, NDJSON or concatenated objects, in UTF-8.",
    ),
    Code.DUPLICATE_MEMBER: Entry(
        Kind.MALFORMED,
        "A JSON object has the same key twice, so readers could disagree about its value.",
        "Write each key once.",
    ),
    Code.MALFORMED_CSV: Entry(
        Kind.MALFORMED,
        "The body is not valid CSV with the given delimiter, quote and escape.",
        "Correct the record at the line that the detail names, or set the delimiter, quote and escape of the file.",
    ),
    Code.CSV_FIELD_COUNT: Entry(
        Kind.INVALID,
        "A CSV record has the wrong number of fields for its columns.",
        "Compare the record at the line with `columns`. Realtime mode needs three fields per column and three more.",
        {
            ROWS_FORMAT: "Compare the record at the line with the header: a field that has the delimiter needs quotes, "
            "and `delimiter` names another one than the comma."
        },
    ),
    Code.COLUMNS_REQUIRED: Entry(
        Kind.INVALID,
        "The request does not give the order of the CSV columns, and Mirrorgate never guesses it.",
        "Set `columns=` to the names in file order, or `header=true` if the file begins with them.",
    ),
    Code.MODE_MISMATCH: Entry(
        Kind.INVALID,
        "A CSV record has the number of fields of the other mode.",
        "Set `mode=snapshot` for one field per column, or `mode=realtime` for three per column and three more.",
    ),
    Code.MALFORMED_ARROW: Entry(
        Kind.MALFORMED,
        "The body is not an Arrow IPC stream that the gateway can read.",
        "Send one complete stream as Arrow's stream writers produce it, without dictionaries or compressed buffers.",
    ),
    Code.MALFORMED_MESSAGE: Entry(
        Kind.INVALID,
        "A message lacks a field, or a field has the wrong type.",
        "Compare the message at the pointer with `ArcionMessage`, `ReplicateMessage` or `DebeziumMessage` in the "
        "gateway's /redoc. Send rows without change data capture to `POST /v1/changes/rows`.",
        {
            ROWS_FORMAT: 'Send each row as an object of values by column name, such as `{"id": 1, "name": "Ada"}`: one '
            "object, an array of them, or one a line.",
        },
    ),
    Code.WRONG_ENDPOINT: Entry(
        Kind.INVALID,
        "A message is in a format that this endpoint does not read.",
        "Send the body to the endpoint that the detail names.",
    ),
    Code.BAD_OP: Entry(
        Kind.INVALID,
        "The format does not have this operation.",
        "Use I, U, D or R for Arcion, REFRESH, READ, INSERT, UPDATE or DELETE for Replicate, and c, r, u or d for "
        "Debezium.",
        {ROWS_FORMAT: "Use upsert, insert, update or delete."},
    ),
    Code.TRUNCATE_UNSUPPORTED: Entry(
        Kind.INVALID,
        "The source truncated a table. Mirroring cannot delete all rows at once.",
        "Let the connector skip truncates (skipped.operations=t), and delete the rows by a full load session "
        "(docs/loads.md) or by deletes. Or recreate the table (POST /v1/tables/{table}/recreate), which empties it, "
        "then send the events after this one.",
    ),
    Code.BAD_EXISTS: Entry(Kind.INVALID, "An `exists` value is not 0, 1, 2 or 3.", _EXISTS),
    Code.EXISTS_MISMATCH: Entry(Kind.INVALID, "`exists` contradicts the images or the operation.", _EXISTS),
    Code.BAD_ENVELOPE: Entry(
        Kind.INVALID,
        "The Replicate envelope does not have magic atMSG and type MD or DT.",
        "Send the messages exactly as Replicate wrote them.",
    ),
    Code.LEGACY_FORMAT: Entry(
        Kind.INVALID,
        "`data` is a list, as in an older Replicate format.",
        "Configure the Replicate endpoint for JSON messages with `data` as an object.",
    ),
    Code.BAD_MASK: Entry(
        Kind.INVALID,
        "A column mask or change mask is not hexadecimal.",
        "Send the headers exactly as Replicate wrote them.",
    ),
    Code.MASK_OUT_OF_RANGE: Entry(
        Kind.INVALID,
        "A mask has a bit beyond the last column in the table's metadata.",
        "Send the matching metadata (MD) message first, and leave the headers unchanged.",
    ),
    Code.MASK_MISMATCH: Entry(
        Kind.INVALID,
        "The column mask names a column that the message does not have.",
        "Send data messages as Replicate wrote them, with every key of `data`.",
    ),
    Code.AMBIGUOUS_DELETE: Entry(
        Kind.INVALID,
        "A delete has two images with different keys.",
        "Send the deleted row once, in `data`.",
    ),
    Code.OUT_OF_ORDER: Entry(
        Kind.INVALID,
        "The changes in the request are not in the order of their change sequences.",
        "Send the changes of a task in the order of their changeSequence.",
    ),
    Code.BAD_SEQUENCE: Entry(
        Kind.INVALID,
        "The table enforces the source order, and a change has no valid changeSequence, which only Replicate writes.",
        "Send the headers exactly as Replicate wrote them. For another source, set the table option "
        "source_order=arrival; with reload=upsert and insert_marker=upsert, a repeated change replaces its row.",
    ),
}
