"""Recognizes messages of change data capture among plain rows, so that a rejection can name their endpoint."""

from collections.abc import Mapping, Set
from typing import Any, Final

from app.errors import Code, Problem

_ARCION: Final = "the message is in Arcion format, not a row; send the body to POST /v1/changes/arcion"
_REPLICATE: Final = "the message is in Qlik Replicate format, not a row; send the body to POST /v1/changes/replicate"
_DEBEZIUM: Final = (
    "the message is a Debezium event, not a row; send its `after` as a row, or the key of a deleted row with op=delete"
)
_FORMS: Final[tuple[tuple[frozenset[str], str, str], ...]] = (
    (frozenset({"tableName", "opType"}), "tableName", _ARCION),
    (frozenset({"magic", "message"}), "", _REPLICATE),
    (frozenset({"message"}), "message", _REPLICATE),
    (frozenset({"data", "headers"}), "data", _REPLICATE),
    (frozenset({"data", "beforeData"}), "data", _REPLICATE),
    (frozenset({"data", "headers_operation"}), "data", _REPLICATE),
    (frozenset({"payload"}), "payload", _DEBEZIUM),
    (frozenset({"op", "source"}), "source", _DEBEZIUM),
)
"""Keys of a message, and the one among them whose value is an object."""


def foreign_problem(index: int, row: Mapping[str, Any], columns: Set[str]) -> Problem | None:
    """Return the problem of a message in another form; None for a row, also one with wrong columns.

    A form is recognized by keys that are no `columns` of the table.
    """
    if row.keys() <= columns:
        return None
    for keys, container, detail in _FORMS:
        if keys <= row.keys() and keys.isdisjoint(columns) and (not container or isinstance(row[container], dict)):
            return Problem(Code.WRONG_ENDPOINT, detail, index)
    return None
