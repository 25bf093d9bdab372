"""Table option `source_order=enforce`: accepts each change of a source task once, in the source's order.

A task whose topic has several partitions is ordered within each of them only: changes of another partition can arrive
later with lower positions. So positions are kept by task and, if the request gives it, partition.

The position is Replicate's `changeSequence`: 35 digits, so that texts sort like numbers; monotone per task; empty in a
full load, whose changes therefore always pass. Sources: docs/formats.md, "Source order", and "Data message" in Qlik's
description of the message structure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.model.change import Change, Operation
from app.errors import Code, Problem, RejectedInput

MAX_PARTITION_CHARACTERS: Final = 128
_SEPARATOR: Final = "\u001f"
"""Between task and partition: a control character, which no partition has."""

_CHANGE_SEQUENCE: Final = re.compile(r"\d{35}", re.ASCII)


def order_key(task: str, partition: str | None) -> str:
    """Return the key of a task's positions; without a partition, its own name."""
    name = task.replace(_SEPARATOR, " ")
    return name if partition is None else f"{name}{_SEPARATOR}{partition}"


@dataclass(frozen=True, slots=True)
class OrderedChanges:
    """The changes of a request after the last accepted position, and how many were accepted before."""

    accepted: list[Change]
    duplicates: int
    last: str | None
    """The last accepted position once these are staged."""


def in_source_order(changes: Sequence[Change], last: str | None) -> OrderedChanges:
    """Drop the changes of one table and task that were accepted before.

    A sequence at or below `last`, or equal to the one before it, is a duplicate. Raises RejectedInput
    `out_of_order` where one is below another before it, `bad_sequence` where a change of the log has none.
    """
    accepted: list[Change] = []
    problems: list[Problem] = []
    duplicates = 0
    highest = ""
    for change in changes:
        sequence = change.source_position
        if sequence is None and change.operation is Operation.SNAPSHOT:
            accepted.append(change)
        elif sequence is None or not _CHANGE_SEQUENCE.fullmatch(sequence):
            problems.append(
                Problem(Code.BAD_SEQUENCE, "changeSequence must be 35 digits", change.index, change.position_at)
            )
        elif sequence < highest:
            detail = "the change sequence is below that of an earlier change of the request"
            problems.append(Problem(Code.OUT_OF_ORDER, detail, change.index, change.position_at))
        elif sequence == highest or (last is not None and sequence <= last):
            duplicates += 1
            highest = sequence
        else:
            accepted.append(change)
            highest = sequence
    if problems:
        raise RejectedInput.of(tuple(problems))
    return OrderedChanges(accepted, duplicates, max(last or "", highest) or None)
