"""What the operator chooses on the command line: records to skip, and where to continue when a log has changed.

Both are safe to leave on the command line of a service: a skip concerns one offset, and a start applies only where the
bridge would otherwise stop.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from app.bridge.kafka.partition.positions import Log
from app.errors import Code, RejectedInput

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
