"""Recognizes bodies that were sent to the wrong endpoint, so that a rejection can name the right one.

A body is looked at only after it was rejected, except for plain rows: there every object is a row, so the keys of a
message that are not columns of the table tell it apart before anything is kept of it.

Rejections of the endpoint's own form get the remedy that their code has for that form.

Invariant: only the text of a rejection changes here; what is accepted does not.
"""

from collections.abc import Mapping, Set
from enum import StrEnum
from typing import Any, Final

import msgspec

from app.formats.json.decoder import raw_messages
from app.formats.json.framing import DECODE_ERRORS
from app.formats.json.texts import is_record
from mirrorgate.errors import Code, Problem, RejectedInput


class Form(StrEnum):
    """A kind of message, by the last part of the path of its endpoint."""

    ARCION = "arcion"
    REPLICATE = "replicate"
    DEBEZIUM = "debezium"
    ROWS = "rows"
    ARROW = "arrow"


_NAMES: Final = {
    Form.ARCION: "in Arcion format",
    Form.REPLICATE: "in Qlik Replicate format",
    Form.DEBEZIUM: "a Debezium event",
    Form.ROWS: "a plain row",
}
_TO_ROWS: Final = f"send the body to POST /v1/changes/{Form.ROWS}"
_ALTERNATIVES: Final = {
    Form.ARCION: f"{_TO_ROWS} or, if it is a snapshot of `replication-format: NATIVE`, name its table with "
    "?table=…&mode=snapshot",
    Form.REPLICATE: _TO_ROWS,
    Form.DEBEZIUM: f"{_TO_ROWS} or, if it is a flattened event, name its table with ?table=…",
}
"""Remedies for a plain row at the endpoint of another form."""

_SIGNS: Final[tuple[tuple[frozenset[str], tuple[str, ...], Form], ...]] = (
    (frozenset({"tableName", "opType"}), ("tableName",), Form.ARCION),
    (frozenset({"magic", "message"}), (), Form.REPLICATE),
    (frozenset({"message"}), ("message",), Form.REPLICATE),
    (frozenset({"data", "headers"}), ("headers",), Form.REPLICATE),
    (frozenset({"data", "beforeData"}), ("data", "beforeData"), Form.REPLICATE),
    (frozenset({"data", "headers_operation"}), ("data",), Form.REPLICATE),
    (frozenset({"data", "operation"}), ("data",), Form.REPLICATE),
    (frozenset({"lineage", "tableStructure"}), ("tableStructure",), Form.REPLICATE),
    (frozenset({"payload"}), ("payload",), Form.DEBEZIUM),
    (frozenset({"schema", "payload"}), ("schema",), Form.DEBEZIUM),
    (frozenset({"op", "source"}), ("source",), Form.DEBEZIUM),
    (frozenset({"op", "after"}), ("after", "before"), Form.DEBEZIUM),
    (frozenset({"__deleted"}), (), Form.DEBEZIUM),
    (frozenset({"__op"}), (), Form.DEBEZIUM),
)
"""Keys of a message, and those of which one must be an object."""

_SIGNIFICANT: Final = frozenset().union(*(keys for keys, _, _ in _SIGNS)) | {"exists", "cursor", "type", "key", "value"}
"""Keys that a plain row without a form is not taken by."""

_ARROW_STARTS: Final = (b"\xff\xff\xff\xff", b"ARROW1")
"""The continuation marker of an Arrow IPC stream, and the magic of an Arrow file."""

_COMPRESSED: Final = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}
"""First bytes of a compressed body."""

_MAX_HEAD: Final = 4_096
_SUSPICIOUS: Final = frozenset(
    {
        Code.BAD_ENVELOPE,
        Code.BAD_OP,
        Code.INCOMPLETE_INSERT,
        Code.INCOMPLETE_UPDATE,
        Code.MALFORMED_ARROW,
        Code.MALFORMED_CSV,
        Code.MALFORMED_JSON,
        Code.MALFORMED_MESSAGE,
        Code.MISSING_KEY,
        Code.NULL_KEY,
        Code.UNKNOWN_COLUMN,
        Code.UNKNOWN_TABLE,
    }
)
"""Codes that a message of another form can get."""


def form_of(message: Any, columns: Set[str] = frozenset()) -> Form | None:
    """Return the form of a decoded message, also inside a Kafka record; None if it has none of them.

    A form is recognized by keys that are no `columns` of the table.
    """
    if is_record(message) and not columns & {"key", "value"}:
        message = message["value"]
    if not isinstance(message, dict) or message.keys() <= columns:
        return None
    for keys, objects, form in _SIGNS:
        if keys <= message.keys() and keys.isdisjoint(columns) and (not objects or _has_object(message, objects)):
            return form
    return None


def is_plain_row(message: Any) -> bool:
    """Return True if a message is an object of scalars that none of the other forms would have."""
    if not isinstance(message, dict) or not message or not _SIGNIFICANT.isdisjoint(message):
        return False
    return not any(isinstance(value, dict | list) for value in message.values())


def foreign_problem(index: int, message: Any, own: Form, columns: Set[str] = frozenset()) -> Problem | None:
    """Return the problem of a message in another form than its endpoint's; None for one of this form, or of none."""
    form = form_of(message, columns)
    if form is None and own in _ALTERNATIVES and is_plain_row(message):
        form = Form.ROWS
    if form is None or form is own:
        return None
    to = _ALTERNATIVES[own] if form is Form.ROWS else f"send the body to POST /v1/changes/{form}"
    detail = f"the message is {_NAMES[form]}, not {_NAMES[own]}; {to}"
    return Problem(Code.WRONG_ENDPOINT, detail, index)


def explained(
    error: RejectedInput, body: bytes, own: Form, *, is_csv: bool = False, reads_rows: bool = False
) -> RejectedInput:
    """Return the rejection that names the right endpoint if the body is of another form; else with its own remedy.

    `own` is the form that the endpoint reads, `is_csv` whether the request declares CSV. With `reads_rows` the request
    has plain rows read, too.
    """
    found = _foreign(error, body, own, is_csv=is_csv, reads_rows=reads_rows) if error.code in _SUSPICIOUS else error
    own_remedy = found.code.of_format.get(Form.ROWS if own is Form.ARROW else own)
    if own_remedy is None or found.remedy != found.code.remedy:
        return found
    return RejectedInput(found.code, found.detail, problems=found.problems, remedy=own_remedy, withheld=found.withheld)


def _foreign(error: RejectedInput, body: bytes, own: Form, *, is_csv: bool, reads_rows: bool) -> RejectedInput:
    for encoding, start in _COMPRESSED.items():
        if body.startswith(start):
            said = f"the body is compressed with {encoding}, and the request does not say so"
            remedy = f"Set the header `Content-Encoding: {encoding}`."
            return RejectedInput(Code.BAD_ENCODING, said, remedy=remedy, withheld=error.withheld)
    detail = _of_bytes(body, own, is_csv=is_csv)
    if detail is not None:
        return RejectedInput(Code.WRONG_ENDPOINT, detail, remedy=remedy_of(detail), withheld=error.withheld)
    if is_csv or own in {Form.ROWS, Form.ARROW} or error.code is Code.MALFORMED_JSON:
        return error  # rows are told apart by the table's columns, before they are read
    index = next((problem.index for problem in error.problems if problem.index is not None), None)
    message = None if index is None else _message(body, index)
    problem = foreign_problem(index or 0, message, own)
    if problem is None or (reads_rows and is_plain_row(message)):
        return error
    return RejectedInput.of((problem,), remedy=remedy_of(problem.detail), withheld=error.withheld)


def _of_bytes(body: bytes, own: Form, *, is_csv: bool) -> str | None:
    """Return what to do with a body that is Arrow, CSV or JSON, and that its request declares as something else."""
    head = body[:_MAX_HEAD].removeprefix(b"\xef\xbb\xbf").lstrip()
    is_json = head.startswith((b"{", b"[", b"null"))
    if own is Form.ARROW:
        message = _message(body, 0) if is_json else None
        form = form_of(message) or Form.ROWS
        detail = "the body is JSON, not an Arrow stream; send it to"
        return f"{detail} POST /v1/changes/{form} with the content type application/json" if is_json else None
    if body.startswith(_ARROW_STARTS):
        return (
            "the body is an Arrow stream; send it to POST /v1/changes/rows or, as an initial load, to "
            "POST /v1/changes/arrow, with the content type application/vnd.apache.arrow.stream"
        )
    if is_csv:
        return (
            f"the body is JSON; send it to POST /v1/changes/{own} with the content type application/json"
            if is_json and head.startswith((b"{", b"[{"))
            else None
        )
    first = head.split(b"\n", 1)[0]
    if (
        is_json
        or not first.isascii()
        or not any(delimiter in first for delimiter in b",;\t|")
        or not first[:1].isascii()
    ):
        return None
    endpoint = own if own in {Form.ARCION, Form.ROWS} else Form.ROWS
    return f"the body looks like CSV; send it to POST /v1/changes/{endpoint} with the content type text/csv"


def _message(body: bytes, index: int) -> Any:
    """Return one message of a JSON body, None where it cannot be read."""
    try:
        messages = raw_messages(body)
        return msgspec.json.decode(messages[index]) if index < len(messages) else None
    except (RejectedInput, *DECODE_ERRORS):
        return None


def remedy_of(detail: str) -> str:
    """Return the remedy for a body or message of another form: the second half of the detail, which says what to do."""
    what = detail.rpartition("; ")[2]
    return f"{what[0].upper()}{what[1:]}. Nothing of the request was staged."


def _has_object(message: Mapping[str, Any], names: tuple[str, ...]) -> bool:
    return any(isinstance(message.get(name), dict) for name in names)
