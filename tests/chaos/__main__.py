"""`make chaos MINUTES=n`: histories of random failures until the time is up. Exits 1 at the first violation."""

import argparse
import logging
import os
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import structlog
from rich.console import Console
from rich.table import Table as Grid

from tests.chaos.checks.oracle import Result
from tests.chaos.faults.failovers import run_failovers
from tests.chaos.faults.restores import run_restores
from tests.chaos.history import run_history
from tests.chaos.kafka.run import run_bridges
from tests.chaos.mixed_versions import run_mixed_versions

PLACE: Final = Path(__file__).resolve().parents[2] / ".chaos"
RUNS: Final[dict[str, Callable[[Path, int, float], Result]]] = {
    "local": partial(run_history, "local"),
    "onelake": partial(run_history, "onelake"),
    "spark": partial(run_history, "spark"),
    "restore": run_restores,
    "failover": run_failovers,
    "versions": run_mixed_versions,
    "bridges": run_bridges,
}
"""By the name of a store: what runs a history in a folder, from a seed, for so many seconds."""

ORDER: Final = ("local", "onelake", "restore", "failover", "local", "onelake", "spark", "versions", "bridges")
HISTORY_SECONDS: Final = 25.0

console = Console(highlight=False, markup=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="time for new histories (default: 1)")
    parser.add_argument(
        "--seed",
        type=int,
        default=int(os.environ.get("SEED") or random.SystemRandom().randrange(10**6)),
        help="seed of the first history (default: SEED, or random)",
    )
    parser.add_argument("--store", choices=sorted(RUNS), help="store of every history (default: each in turn)")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    shutil.rmtree(PLACE, ignore_errors=True)
    end = time.monotonic() + 60 * arguments.minutes
    total, number = Result(), 0
    while number == 0 or time.monotonic() < end - 5:
        seed = arguments.seed + number
        store = arguments.store or ORDER[seed % len(ORDER)]
        seconds = max(5.0, min(HISTORY_SECONDS, end - time.monotonic()))
        result = run(PLACE / f"{number:03d}-{store}-{seed}", store, seed, seconds)
        total.add(result)
        number += 1
        if result.violation:
            console.print(f"VIOLATION in history {number} ({store}): {result.violation}")
            console.print(f"Replay: make chaos SEED={seed} ARGS='--store {store}'. Evidence: {PLACE.name}/")
            break
    report(total, number)
    return 1 if total.violation else 0


def run(place: Path, store: str, seed: int, seconds: float) -> Result:
    if not sys.stdout.isatty():
        return RUNS[store](place, seed, seconds)
    with console.status(f"History in {store} from seed {seed}, for {seconds:.0f} s …"):
        return RUNS[store](place, seed, seconds)


def report(total: Result, histories: int) -> None:
    for title, counts in (("kills", total.kills), ("storage faults", total.faults), ("clients", total.events)):
        show(title, counts)
    console.print(
        f"{histories} histories, {total.kills.total():,} kills and stops, {total.faults.total():,} storage faults; "
        f"{total.batches:,} batches acknowledged, {total.rows:,} rows in {total.files:,} files checked; "
        f"{'1 violation' if total.violation else 'no violation'}."
    )


def show(title: str, counts: Counter[str]) -> None:
    grid = Grid("", title, box=None, header_style="bold")
    for what, count in counts.most_common():
        grid.add_row(f"{count:,}", what)
    console.print(grid)


if __name__ == "__main__":
    sys.exit(main())
