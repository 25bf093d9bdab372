"""A landing zone whose mount is lost: the folder is renamed, and an empty one replaces it."""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from tests.chaos.checks.oracle import Violation

SCRATCH = "_scratchPad"


class Mount:
    """A landing zone that disappears and returns."""

    def __init__(self, zone: Path) -> None:
        self._zone, self._away = zone, zone.with_name(f"{zone.name}-away")

    @property
    def is_lost(self) -> bool:
        return self._away.exists()

    def lose(self) -> None:
        """Without effect where the zone is lost already, or was never there."""
        if self._zone.exists() and not self.is_lost:
            self._zone.rename(self._away)
            self._zone.mkdir()

    def restore(self) -> None:
        """Mount the zone again. Raises Violation if anything but scratch was made beside it."""
        if not self.is_lost:
            return
        beside: set[str] = set()
        while self.is_lost:
            aside = self._zone.with_name(f"{self._zone.name}-beside-{uuid4().hex}")
            with suppress(FileNotFoundError):
                self._zone.rename(aside)
                beside |= set(os.listdir(aside)) - {SCRATCH}  # noqa: PTH208  # names
                shutil.rmtree(aside, ignore_errors=True)
            with suppress(OSError):  # a drain that is late makes its scratch there again
                self._away.rename(self._zone)
        if beside:
            raise Violation(f"made beside a landing zone that was away: {sorted(beside)}")
