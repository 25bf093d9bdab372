"""A landing zone in OneLake for chaos: the endpoint fails at random, and the strict mirror consumes what lands."""

import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from app.landing.open_zone import ZoneAddress
from mirrorgate_zone.emulator.faults import Effect, Fault, Faults
from mirrorgate_zone.emulator.onelake import OneLake, certificates, served
from mirrorgate_zone.emulator.storage_tree import Node
from tests.chaos.checks.consumer_view import PROCESSED, SeenFile, SeenFolder
from tests.chaos.checks.oracle import Violation
from tests.support.onelake.clients import onelake_address
from tests.support.onelake.mirror import Mirror

_REJECTIONS: Final = (
    Fault(Effect.ANSWER, 429, "TooManyRequests", retry_after="0"),
    Fault(Effect.ANSWER, 503, "ServerBusy", retry_after="0"),
    Fault(Effect.ANSWER, 500, "OperationTimedOut"),
)
_LOST: Final = (
    Fault(Effect.RESET_BEFORE),
    Fault(Effect.RESET_AFTER),
    Fault(Effect.RESET_AFTER),
    Fault(Effect.ERROR_AFTER),
    Fault(Effect.SILENT_AFTER),
)


class RandomFaults(Faults):
    """Makes a share of all requests fail; `note` receives each fault."""

    def __init__(self, source: random.Random, share: float, note: Callable[[str], None]) -> None:
        super().__init__()
        self._source, self.share, self._note = source, share, note

    def next(self, operation: str, path: str) -> Fault | None:
        with self._lock:
            if self._source.random() >= self.share:
                return None
            fault = self._source.choice((*_REJECTIONS, *_LOST))
        self._note(f"{operation}: {fault.effect} {fault.status if fault.effect is Effect.ANSWER else ''}".strip())
        return fault


@dataclass
class OneLakeZone:
    """The endpoint while a history runs, seen as a consumer sees it."""

    source: random.Random
    note: Callable[[str], None]
    share: float = 0.2

    def __post_init__(self) -> None:
        self._opened = ExitStack()
        trust = self._opened.enter_context(certificates())
        self.faults = RandomFaults(self.source, self.share, self.note)
        self._endpoint = self._opened.enter_context(served(OneLake(faults=self.faults), trust))
        self._mirror = Mirror(self._endpoint, eager=False)
        self.address: ZoneAddress = onelake_address(self._endpoint, trust, retry_seconds=2.0, answer_seconds=0.25)

    def close(self) -> None:
        self._opened.close()

    def folders(self) -> list[SeenFolder]:
        """Return the tree at one moment. Raises Violation for what the strict mirror would not accept."""
        if self._mirror.problems:
            raise Violation("; ".join(self._mirror.problems))
        with self._endpoint.tree.lock:
            return [self._look(name, node) for name, node in self._mirror._folders()]

    def consume(self, folder: str, number: int) -> None:
        """Let the mirror consume all files; it moves away all but the last."""
        with self._endpoint.tree.lock:
            table = self._mirror.tables.get(folder)
            if table is not None and number not in table.removed:
                self._mirror.consume()

    def _look(self, name: str, node: Node) -> SeenFolder:
        seen = SeenFolder(name, node.identity)
        start = f"{self._endpoint.landing_zone}/{name}"
        for path, inside in self._endpoint.tree.below(start, recursive=True):
            if not inside.folder:
                _add(seen, path[len(start) + 1 :], inside)
        return seen


def _add(seen: SeenFolder, name: str, node: Node) -> None:
    file = SeenFile(f"{node.identity}/{len(node.content)}", lambda: node.content)
    if name.startswith(f"{PROCESSED}/"):
        seen.add_processed(name.rpartition("/")[2], file)
    else:
        seen.add(name, file)
