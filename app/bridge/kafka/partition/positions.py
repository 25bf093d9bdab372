"""The position of a partition at the gateway, and the decision where to read next.

The position is JSON: the offset of the last durable record, and what identifies the log that the offset is of. Brokers
from Kafka 2.8 give a topic an id; for others only the first and last offset tell that a topic was recreated.
Invariant: the bridge never guesses: when the log does not continue the position, the operator chooses,
on the command line. Such a choice is safe to leave there: a skip concerns one offset, and a start applies only where
the bridge would otherwise stop.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from mirrorgate.errors import Code, MirrorgateError, RejectedInput

MAX_POSITION_CHARACTERS: Final = 256


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last durable record of a partition."""

    offset: int
    topic_id: str | None = None
    partitions: int | None = None
    """The number of partitions that the topic had."""

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Read a position. Raises CannotContinue for a string that is not one of a Kafka bridge."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, msgspec.ValidationError):
            raise CannotContinue(
                Code.PRODUCER_SHARED,
                "the gateway stores a position under this producer that is not a position of a Kafka bridge",
                "Give the bridge another `cluster` or `group`, or its key to no other program.",
            ) from None

    def text(self) -> str:
        """Return the form that the gateway stores."""
        return msgspec.json.encode(self).decode()


SNAPSHOTS_REMEDY: Final = (
    "Set the table's options `reload=upsert` and `insert_marker=upsert`: the topic has several partitions, so snapshot "
    "rows of one can follow changes of another."
)


class CannotContinue(MirrorgateError):
    """The bridge does not read a partition until the operator has chosen. The remedy names the choices."""

    def __init__(self, code: Code, detail: str, remedy: str) -> None:
        super().__init__(code, detail, remedy=remedy)


@dataclass(frozen=True)
class Log:
    """A broker's facts about a partition: offsets from `low` to before `high` exist."""

    low: int
    high: int
    topic_id: str | None
    partitions: int


def next_offset(position: Position, log: Log, *, accepted_partitions: int | None, needs_order: bool) -> int:
    """Return the offset after the position. Raises CannotContinue when the log does not continue it."""
    if position.topic_id and log.topic_id and position.topic_id != log.topic_id:
        raise _lost(f"the topic was deleted and created again since offset {position.offset}", log)
    if position.offset + 1 > log.high:
        raise _lost(
            f"the log ends at offset {log.high}, before the durable offset {position.offset}: the topic was created "
            "again or cut off",
            log,
        )
    if position.offset + 1 < log.low:
        missing = log.low - position.offset - 1
        raise _lost(f"{missing} offsets from {position.offset + 1} on are deleted and were never read", log)
    if needs_order:
        check_partitions(position.partitions, log.partitions, accepted_partitions)
    return position.offset + 1


def check_partitions(known: int | None, found: int, accepted: int | None) -> None:
    """Raise CannotContinue if the number of partitions has changed and the operator has not accepted the new one."""
    if known is None or known == found or accepted == found:
        return
    raise CannotContinue(
        Code.SOURCE_ORDER_UNSAFE,
        f"the topic has {found} partitions now and had {known}: records of one key may be in two partitions, so a "
        "newer change could land before an older one",
        f"Once the records from before the change are mirrored, or if keys never change partition, write "
        f"`partitions: {found}` for the topic and start the bridge again.",
    )


def _lost(detail: str, log: Log) -> CannotContinue:
    return CannotContinue(
        Code.SOURCE_POSITION_LOST,
        detail,
        f"Choose where to continue: `--from TOPIC/PARTITION@earliest` reads from offset {log.low}, `@latest` from "
        f"{log.high}, `@N` from offset N. Reload the tables from their source if records are missing in between.",
    )


def producer_name(cluster: str, group: str, topic: str, partition: int) -> str:
    """Return the producer's name at the gateway: visible ASCII, at most 255 characters.

    Cluster and group have 100 characters at most and a topic 249, so a long topic is named by its hash.
    """
    name = f"kafka:{cluster}/{group}/{topic}/{partition}"
    if len(name) <= 255:
        return name
    return f"kafka:{cluster}/{group}/sha256-{hashlib.sha256(topic.encode()).hexdigest()[:32]}/{partition}"


_SKIP: Final = re.compile(r"([A-Za-z0-9._-]+)/(\d+)@(\d+)")
_FROM: Final = re.compile(r"([A-Za-z0-9._-]+)/(\d+|\*)@(\d+|earliest|latest)")


@dataclass(frozen=True)
class Choices:
    """The options of the command line, read."""

    skips: frozenset[tuple[str, int, int]] = frozenset()
    starts: dict[tuple[str, int | None], str] = field(default_factory=dict)

    @classmethod
    def parse(cls, skips: Iterable[str], starts: Iterable[str]) -> "Choices":
        """Read `TOPIC/PARTITION@OFFSET` and `TOPIC/PARTITION@earliest|latest|OFFSET`. Raises RejectedInput."""
        skipped, chosen = set(), {}
        for text in skips:
            found = _SKIP.fullmatch(text)
            if found is None:
                raise _wrong("--skip", text, "orders/0@1234")
            skipped.add((found[1], int(found[2]), int(found[3])))
        for text in starts:
            found = _FROM.fullmatch(text)
            if found is None:
                raise _wrong("--from", text, "orders/0@earliest, orders/*@latest or orders/0@1234")
            chosen[found[1], None if found[2] == "*" else int(found[2])] = found[3]
        return cls(frozenset(skipped), chosen)

    def start(self, topic: str, partition: int, log: Log) -> int | None:
        """Return the offset that was chosen for a partition, None without a choice."""
        chosen = self.starts.get((topic, partition)) or self.starts.get((topic, None))
        if chosen is None:
            return None
        return {"earliest": log.low, "latest": log.high}.get(chosen) if not chosen.isdigit() else int(chosen)


def _wrong(option: str, text: str, example: str) -> RejectedInput:
    return RejectedInput(
        Code.BAD_REQUEST, f"{option} {text!r} has the wrong form", remedy=f"Write for example {example}."
    )
