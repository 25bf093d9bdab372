"""The limits of the gateway, for the tables of docs/reference/limits.md: settings by their names, and constants.

A limit of the settings has its text and its default from the field; this module says only what happens beyond it.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from app.api import gateway
from app.api.changes.endpoints import MAX_MEMBERS
from app.api.exchange import MAX_CHECK_BODY_BYTES, MAX_OTHER_BODY_BYTES
from app.api.schemas.common import MAX_PAGE_ENTRIES
from app.api.server.http_protocol import MAX_HEAD_BYTES, MAX_HEAD_SECONDS
from app.api.server.problem_responses import MAX_PROBLEMS as MAX_LISTED_PROBLEMS
from app.api.server.problem_responses import STATUS
from app.domain.model.change import MAX_CELLS
from app.domain.model.dead_letter import MAX_LETTER_BYTES, MAX_WAITING_BYTES, MAX_WAITING_LETTERS
from app.domain.model.expressions import MAX_EXPRESSION_CHARACTERS, MAX_EXPRESSION_DEPTH, MAX_EXPRESSION_NODES
from app.domain.model.names import MAX_NAME_BYTES, MAX_TEXT_BYTES
from app.domain.model.projection import (
    MAX_CONSTANT_BYTES,
    MAX_CONSTANTS_BYTES,
    MAX_DERIVED_COLUMNS,
    MAX_FILTER_PARTS,
    MAX_MASKED_CHARACTERS,
)
from app.domain.rows.derived_columns import MAX_DERIVED_TEXT_BYTES
from app.domain.rows.row_image import MAX_COMPLETED_BYTES
from app.domain.rows.row_layout import MAX_PROBLEMS
from app.domain.rows.source_order import MAX_PARTITION_CHARACTERS
from app.formats.csv import MAX_FIELDS
from app.formats.json.texts import MAX_NESTED_VALUES, MAX_NESTING
from app.ingest import MAX_OPERATIONS
from app.ingest.dry_run import MAX_ANSWER_BYTES
from app.mirror.typed_rows import MAX_PAGE_BYTES
from app.settings import PREFIX, Settings
from app.staging.tables.replicate_sources import MAX_LAYOUTS
from mirrorgate.errors import Code

_CLOSED: Final = f"{STATUS[Code.REQUEST_TIMEOUT.kind]} `{Code.REQUEST_TIMEOUT}`; the connection is closed"

BEYOND: Final[Mapping[str, Mapping[str, Code | str]]] = {
    "Per request": {
        "max_body_bytes": Code.BODY_TOO_LARGE,
        "max_expansion": Code.BODY_EXPANDS_TOO_MUCH,
        "max_request_messages": Code.TOO_MANY_MESSAGES,
        "max_value_bytes": Code.VALUE_TOO_LARGE,
        "body_seconds": _CLOSED,
        "body_grace_seconds": _CLOSED,
        "min_body_rate": _CLOSED,
    },
    "Per key": {"key_requests_per_second": Code.RATE_LIMITED, "key_bytes_per_second": Code.RATE_LIMITED},
    "Per API process": {
        "max_concurrent_requests": Code.OVERLOADED,
        "max_bytes_in_memory": Code.OVERLOADED,
        "max_key_share": Code.OVERLOADED,
        "max_large_bodies_bytes": "the other bodies wait",
    },
    "Backlog": {
        "max_backlog_bytes": Code.BACKLOG_FULL,
        "max_backlog_rows": Code.BACKLOG_FULL,
        "max_backlog_seconds": Code.BACKLOG_FULL,
        "max_total_backlog_bytes": Code.BACKLOG_FULL,
        "max_total_backlog_rows": Code.BACKLOG_FULL,
    },
}
"""Results beyond each limit of the settings: an error code, or a string."""


class Fixed(NamedTuple):
    """A limit that is not a setting."""

    limits: str
    value: str
    beyond: Code | str


def size(number: int) -> str:
    """Return a number of bytes in the largest unit that divides it."""
    unit, name = next((2**power, name) for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "bytes"))
                      if number % 2**power == 0)  # fmt: skip
    return f"{number // unit:,} {name}"


FIXED: Final = {
    "Fixed limits of a request": (
        Fixed("Compressions of a body", "1 `Content-Encoding`", Code.UNSUPPORTED_ENCODING),
        Fixed("Members of a gzip body, frames of a zstd body", f"{MAX_MEMBERS:,}", Code.BAD_ENCODING),
        Fixed("Nesting of a JSON message", f"{MAX_NESTING} levels", Code.MALFORMED_JSON),
        Fixed("Lists and objects in the values of a JSON body", f"{MAX_NESTED_VALUES:,}", Code.TOO_MANY_NESTED_VALUES),
        Fixed("Fields of a CSV record", f"{MAX_FIELDS:,}", Code.MALFORMED_CSV),
        Fixed("Messages times columns of their table", f"{MAX_CELLS:,}", Code.TOO_MANY_MESSAGES),
        Fixed(
            "Row images that a request reads or writes, and rows that its deletes leave flagged",
            size(MAX_COMPLETED_BYTES), Code.BODY_TOO_LARGE,
        ),
        Fixed(
            "Strings that derived columns of a request read, each counted as often as it is read",
            size(MAX_DERIVED_TEXT_BYTES), Code.BODY_TOO_LARGE,
        ),
        Fixed("Body of a call that is not for changes", size(MAX_OTHER_BODY_BYTES), Code.BODY_TOO_LARGE),
        Fixed("Body of a comparison with the source", size(MAX_CHECK_BODY_BYTES), Code.BODY_TOO_LARGE),
        Fixed("Idempotency key, name of a producer", "255 characters", Code.BAD_REQUEST),
        Fixed("Position of a producer", "256 characters", Code.BAD_REQUEST),
        Fixed("`partition`", f"{MAX_PARTITION_CHARACTERS} characters", Code.BAD_REQUEST),
        Fixed(
            "Schema id, server and task of Replicate metadata, in UTF-8", f"{MAX_TEXT_BYTES} bytes", Code.UNSTORABLE
        ),
        Fixed("Rows in the answer of a dry run, as JSON", size(MAX_ANSWER_BYTES), "`omitted_rows` counts the others"),
        Fixed(
            "Messages that a rejection lists", f"{MAX_LISTED_PROBLEMS}",
            f"`errors_total` counts the others, to about {MAX_PROBLEMS:,}",
        ),
    ),
    "Fixed limits of tables and layouts": (
        Fixed("Each part of a table's name, name of a column, in UTF-8", f"{MAX_NAME_BYTES} bytes", Code.BAD_NAME),
        Fixed("Each part of the name of a source, in UTF-8", f"{MAX_TEXT_BYTES} bytes", Code.BAD_NAME),
        Fixed("Constants, in UTF-8", f"{size(MAX_CONSTANT_BYTES)} each, {size(MAX_CONSTANTS_BYTES)} together",
              Code.BAD_OPTION),
        Fixed(
            "Derived columns",
            f"{MAX_DERIVED_COLUMNS}; an expression has {MAX_EXPRESSION_CHARACTERS:,} characters, "
            f"{MAX_EXPRESSION_NODES} parts, {MAX_EXPRESSION_DEPTH} levels",
            Code.BAD_OPTION,
        ),
        Fixed("Comparisons and values of a filter", f"{MAX_FILTER_PARTS}", Code.BAD_OPTION),
        Fixed("`characters` of a mask", f"{MAX_MASKED_CHARACTERS:,}", Code.BAD_OPTION),
        Fixed("Dead letters that wait", f"{MAX_WAITING_LETTERS:,}, and {size(MAX_WAITING_BYTES)}",
              Code.DEAD_LETTERS_FULL),
        Fixed("A dead letter", size(MAX_LETTER_BYTES), Code.DEAD_LETTERS_FULL),
        Fixed("Layouts of Replicate messages", f"{MAX_LAYOUTS:,}", Code.LAYOUTS_FULL),
        Fixed("`operations` of a layout", f"{MAX_OPERATIONS}", Code.BAD_LAYOUT),
    ),
    "Fixed limits of an API process": (
        Fixed(
            "Comparisons with sources at a time", f"{gateway.MAX_CHECKS}",
            f"the others wait for {gateway.CHECK_SECONDS:.0f} s, then {STATUS[Code.OVERLOADED.kind]} "
            f"`{Code.OVERLOADED}`",
        ),
        Fixed(
            "Calls of `GET /v1/tables/{table}/rows` at a time", f"{gateway.MAX_READS}",
            f"the others wait for {gateway.ANSWER_SECONDS:.0f} s, then {STATUS[Code.MIRROR_AWAY.kind]} "
            f"`{Code.MIRROR_AWAY}`",
        ),
        Fixed("`limit` of such a call", f"{MAX_PAGE_ENTRIES:,}", Code.BAD_REQUEST),
        Fixed("Rows in its answer", size(MAX_PAGE_BYTES), 'the answer ends with `"has_more": true`'),
        Fixed(
            "Request line and headers; trailers and chunk extensions", size(MAX_HEAD_BYTES),
            f"{STATUS[Code.HEAD_TOO_LARGE.kind]} `{Code.HEAD_TOO_LARGE}`; the connection is closed",
        ),
        Fixed("Time for a request's head to arrive", f"{MAX_HEAD_SECONDS:.0f} s", "the connection is closed"),
        Fixed("Time for which a connection is idle", "5 s", "the connection is closed"),
        Fixed("Connections", "open files (`ulimit -n`)", ""),
    ),
}  # fmt: skip


def limits_tables() -> str:
    """Return the limits as Markdown: a heading and a table for each subject."""
    tables = []
    for subject, limits in BEYOND.items():
        head = [f"## {subject}", "", "| limit | default | setting | beyond it |", "|---|---|---|---|"]
        tables.append("\n".join([*head, *_settings_rows(limits)]))
    for subject, fixed in FIXED.items():
        head = [f"## {subject}", "", "| limit | value | beyond it |", "|---|---|---|"]
        rows = [f"| {one.limits} | {one.value} | {_beyond(one.beyond)} |" for one in fixed]
        tables.append("\n".join([*head, *rows]))
    return "\n\n".join(tables) + "\n"


def _settings_rows(limits: Mapping[str, Code | str]) -> Iterator[str]:
    for name, beyond in limits.items():
        field = Settings.model_fields[name]
        text = " ".join((field.description or "").split())
        default = field.default
        if default is None:
            shown = ""
        elif name.endswith("_bytes"):
            shown = size(default)
        else:
            shown = f"{default:,}" if isinstance(default, int) else f"{default:g}"
        yield f"| {text} | {shown} | `{PREFIX}{name.upper()}` | {_beyond(beyond)} |"


def _beyond(beyond: Code | str) -> str:
    return f"{STATUS[beyond.kind].value} `{beyond}`" if isinstance(beyond, Code) else beyond
