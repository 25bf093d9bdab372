"""The error codes that a change request can get, by subject: the table of docs/formats.md."""

from collections.abc import Mapping, Sequence
from typing import Final

from app.api.server.problem_responses import STATUS
from mirrorgate.errors import Code

CHANGE_CODES: Final[Mapping[str, Sequence[Code]]] = {
    "any request": (
        Code.UNAUTHENTICATED,
        Code.BAD_SIGNATURE,
        Code.FORBIDDEN,
        Code.BAD_REQUEST,
        Code.BODY_TOO_LARGE,
        Code.BODY_EXPANDS_TOO_MUCH,
        Code.REQUEST_TIMEOUT,
        Code.UNSUPPORTED_MEDIA_TYPE,
        Code.UNSUPPORTED_ENCODING,
        Code.BAD_ENCODING,
        Code.EMPTY_REQUEST,
        Code.WRONG_ENDPOINT,
        Code.TOO_MANY_MESSAGES,
    ),
    "JSON body": (Code.MALFORMED_JSON, Code.DUPLICATE_MEMBER, Code.MALFORMED_MESSAGE, Code.TOO_MANY_NESTED_VALUES),
    "CSV body": (Code.MALFORMED_CSV, Code.COLUMNS_REQUIRED, Code.CSV_FIELD_COUNT, Code.MODE_MISMATCH),
    "Arrow stream": (Code.MALFORMED_ARROW,),
    "Arcion": (Code.BAD_EXISTS, Code.EXISTS_MISMATCH),
    "Replicate": (
        Code.BAD_ENVELOPE,
        Code.MALFORMED_AVRO,
        Code.UNKNOWN_LAYOUT,
        Code.LEGACY_FORMAT,
        Code.BAD_MASK,
        Code.MASK_OUT_OF_RANGE,
        Code.MASK_MISMATCH,
        Code.AMBIGUOUS_DELETE,
        Code.BAD_TYPE,
        Code.COLUMN_RENAMED,
        Code.SCHEMA_UNKNOWN,
        Code.AMBIGUOUS_SCHEMA_ID,
        Code.SCHEMA_MISMATCH,
        Code.STALE_METADATA,
        Code.OUT_OF_ORDER,
    ),
    "Debezium": (Code.TRUNCATE_UNSUPPORTED,),
    "any change": (
        Code.BAD_OP,
        Code.UNKNOWN_TABLE,
        Code.TABLE_MISMATCH,
        Code.SOURCE_CASE_MISMATCH,
        Code.TABLE_NOT_ACCEPTING,
        Code.BAD_NAME,
        Code.UNSTORABLE,
        Code.RESERVED_NAME,
        Code.BAD_SCHEMA,
        Code.INCOMPATIBLE_SCHEMA,
        Code.UNKNOWN_COLUMN,
        Code.BAD_VALUE,
        Code.VALUE_TOO_LARGE,
        Code.NULL_VALUE,
        Code.NULL_KEY,
        Code.MISSING_KEY,
        Code.NO_KEY,
        Code.DELETE_NEEDS_MARKER,
        Code.OLD_KEY_MISSING,
        Code.AMBIGUOUS_KEY_CHANGE,
        Code.KEY_IN_USE,
        Code.INCOMPLETE_INSERT,
        Code.INCOMPLETE_UPDATE,
        Code.RELOAD_REQUIRES_RECREATE,
        Code.UNKNOWN_LOAD,
        Code.LOAD_ENDED,
        Code.LOAD_TABLE_MISMATCH,
        Code.NO_ROW_IMAGES,
        Code.LOAD_TAKES_ROWS,
        Code.BAD_SEQUENCE,
        Code.POSITION_RESTARTED,
        Code.DEAD_LETTERS_FULL,
    ),
    "the gateway": (
        Code.BACKLOG_FULL,
        Code.RATE_LIMITED,
        Code.OVERLOADED,
        Code.DATABASE_UNAVAILABLE,
        Code.COMMIT_UNKNOWN,
        Code.TABLE_BUSY,
        Code.TABLE_TOO_NEW,
        Code.MASK_SECRET_MISSING,
        Code.MASK_SECRET_DIFFERS,
        Code.SHUTTING_DOWN,
        Code.INTERNAL,
    ),
}
"""The codes by subject. A test compares them with the codes that the modules on a request's path name."""


def change_codes_table() -> str:
    """Return the codes as the Markdown table of docs/formats.md."""
    lines = ["| about | code | HTTP status | meaning |", "|---|---|---|---|"]
    for about, codes in CHANGE_CODES.items():
        lines += [f"| {about} | `{code}` | {int(STATUS[code.kind])} | {code.meaning} |" for code in codes]
    return "\n".join(lines) + "\n"
