"""Takes landing files away as Fabric does: into `_ProcessedFiles`, and from there after a while."""

import time
from pathlib import Path
from typing import Final

from tests.chaos.checks.consumer_view import PROCESSED, LocalConsumer

KEPT_FILES: Final = 20
"""Newest files of a table that stay, because the Delta mirror may not have read them yet."""

KEPT_SECONDS: Final = 60.0
"""How long a processed file stays; Fabric keeps it for seven days."""


def consume(landing_zone: Path, now: float | None = None) -> int:
    """Take away all but the newest files of each table. Return how many were taken."""
    consumer, taken = LocalConsumer(landing_zone), 0
    before = (time.time() if now is None else now) - KEPT_SECONDS
    for seen in consumer.folders():
        for number in sorted(seen.visible)[:-KEPT_FILES]:
            consumer.consume(seen.folder, number)
            taken += 1
        for old in (landing_zone / seen.folder / PROCESSED).glob("*.parquet"):
            if old.stat().st_mtime < before:
                old.unlink()
    return taken
