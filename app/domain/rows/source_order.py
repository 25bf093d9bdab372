"""Table option `source_order=enforce`: each change of a source task is accepted once, in the source's order.

A task whose topic has several partitions has an order in each of them only: changes of another partition may come
later although their marks are lower. So positions are kept by task and, where the request gives it, partition.

The order mark is Replicate's `changeSequence`: 35 digits, so that the order of the texts is that of the numbers;
monotone per task; empty on full load, whose changes therefore always pass. Source: "Data message" in Qlik's
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
    """Return what the positions of a task are kept under; its own name without a partition."""
    name = task.replace(_SEPARATOR, " ")
    return name if partition is None else f"{name}{_SEPARATOR}{partition}"


@dataclass(frozen=True, slots=True)
class OrderedChanges:
    """What a request adds after the last accepted change sequence, and how many of its changes were known."""

    accepted: list[Change]
    duplicates: int
    last: str | None
    """The last accepted sequence once these are staged."""


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
                Problem(Code.BAD_SEQUENCE, "changeSequence is not 35 digits", change.index, change.position_at)
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
