"""Dead letters: rejected messages of an accepted request, kept as they were written until they are settled."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from mirrorgate.errors import Code, Problem
from mirrorgate.errors.codes import KEPT

MAX_LETTER_BYTES: Final = 2**20
"""Bytes of one message; a longer one rejects its request."""

MAX_WAITING_LETTERS: Final = 10_000
"""Waiting dead letters of a table; a request that would exceed it is rejected."""

MAX_WAITING_BYTES: Final = 256 * 2**20
"""Bytes of the waiting messages of a table."""

MAX_LETTER_ERRORS: Final = 100
"""Problems that are stored with a dead letter."""

_SHOWN: Final = ("code", "detail", "pointer", "column")


class LetterFormat(StrEnum):
    """The format that the message of a dead letter is written in."""

    ARCION = "arcion"
    ARCION_CSV = "arcion_csv"
    REPLICATE = "replicate"
    DEBEZIUM = "debezium"
    ROWS = "rows"
    ROWS_CSV = "rows_csv"


class LetterState(StrEnum):
    """A dead letter waits until its message is replayed or discarded."""

    WAITING = "waiting"
    REPLAYED = "replayed"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True)
class RejectedMessage:
    """A message that is set aside from its request, with its problems."""

    index: int
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class WrittenMessage:
    """A message as its request had it, and the parameters needed to read it."""

    format: LetterFormat
    content: bytes
    reading: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NewLetter:
    """A dead letter to be stored."""

    rejected: RejectedMessage
    written: WrittenMessage


def is_kept(problems: Sequence[Problem]) -> bool:
    """Return True if a message with these problems can become a dead letter."""
    return bool(problems) and all(problem.code in KEPT and problem.index is not None for problem in problems)


def to_set_aside(problems: Iterable[Problem]) -> list[RejectedMessage]:
    """Return the messages to set aside next, by index.

    A value can be missing only because a rejected message added its column, so such updates are set aside last,
    whatever else is wrong with them.
    """
    by_index: dict[int, list[Problem]] = {}
    for problem in problems:
        by_index.setdefault(-1 if problem.index is None else problem.index, []).append(problem)
    kept = [RejectedMessage(index, tuple(found)) for index, found in sorted(by_index.items()) if is_kept(found)]
    certain = [one for one in kept if all(found.code is not Code.INCOMPLETE_UPDATE for found in one.problems)]
    return certain or kept


def errors_of(problems: Iterable[Problem]) -> list[dict[str, str]]:
    """Return the problems of one message as they are stored and shown, without its index."""
    return [
        {name: value for name in _SHOWN if (value := getattr(problem, name)) is not None}
        for problem in tuple(problems)[:MAX_LETTER_ERRORS]
    ]
