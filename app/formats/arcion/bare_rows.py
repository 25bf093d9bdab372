"""Bare rows among Arcion's messages: in NATIVE, a snapshot message is the row alone, without a table or an operation.

The request says which table they are for. The same body may have messages of changes, as the same topic has.
"""

from dataclasses import replace
from typing import Any, Final

from app.domain.model.change import Change, Image, Operation
from app.domain.model.input_limits import InputLimits
from app.errors import Code, RejectedInput
from app.formats.json.decoder import MessageDecoder, raw_messages

REMEDY: Final = (
    "If it is a snapshot row of `replication-format: NATIVE`, name its table: `?table=...&mode=snapshot`. Send rows "
    "without change data capture to `POST /v1/changes/rows`. Otherwise compare it with `ArcionMessage` in /redoc."
)
_ROWS: Final = MessageDecoder(dict[str, Any])
_OF_A_MESSAGE: Final = frozenset({"tableName", "opType"})
OPERATION_KEY: Final = b'"opType"'
"""What a body without messages of changes does not have, unless a row has it."""

_AT: Final = ""
"""JSON Pointer of the row: it has no images."""

_UNNAMED: Final = "`tableName`"


def rows_and_messages(body: bytes, limits: InputLimits) -> list[tuple[Image | None, bytes]]:
    """Return the bare rows of a body; for a message of a change None, and the message as it is written.

    Raises RejectedInput for what is no JSON object.
    """
    rows = _ROWS.decode(body, limits)
    if not any(row.keys() >= _OF_A_MESSAGE for row in rows):
        return [(row, b"") for row in rows]
    return [
        (None, written) if row.keys() >= _OF_A_MESSAGE else (row, b"")
        for row, written in zip(rows, raw_messages(body), strict=True)
    ]


def snapshot_row(index: int, row: Image) -> Change:
    """Return the change that a row is, whose text `null` is None already."""
    return Change(index, Operation.SNAPSHOT, None, row, _AT, _AT)


def at_index(error: RejectedInput, index: int) -> RejectedInput:
    """Return the rejection of a message that was decoded alone, with its index in the body."""
    problems = tuple(replace(problem, index=index) for problem in error.problems)
    return RejectedInput.of(problems, remedy=error.remedy) if problems else error


def with_remedy(error: RejectedInput) -> RejectedInput:
    """Return the rejection of a message without a table with what a bare row needs."""
    if error.code is Code.MALFORMED_MESSAGE and error.problems and _UNNAMED in error.detail:
        return RejectedInput.of(error.problems, remedy=REMEDY)
    return error
