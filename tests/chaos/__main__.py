"""`make chaos MINUTES=n`: histories of random failures until the time is up. Exits 1 at the first violation."""

import argparse
import logging
import os
import random
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

import structlog
from rich.console import Console
from rich.table import Table as Grid

from tests.chaos.faults.failovers import run_failovers
from tests.chaos.faults.restores import run_restores
from tests.chaos.history import History, Result
from tests.chaos.mixed_versions import run_mixed_versions

PLACE: Final = Path(__file__).resolve().parents[2] / ".chaos"
STORES: Final = ("local", "onelake", "restore", "failover", "local", "onelake", "spark", "versions")
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
    parser.add_argument("--store", choices=sorted({*STORES}), help="store of every history (default: each in turn)")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    shutil.rmtree(PLACE, ignore_errors=True)
    end = time.monotonic() + 60 * arguments.minutes
    total, number = Result(), 0
    while number == 0 or time.monotonic() < end - 5:
        seed = arguments.seed + number
        store = arguments.store or STORES[seed % len(STORES)]
        seconds = max(5.0, min(HISTORY_SECONDS, end - time.monotonic()))
        result = run(PLACE / f"{number:03d}-{store}-{seed}", store, seed, seconds)
        add(total, result)
        number += 1
        if result.violation:
            console.print(f"VIOLATION in history {number} ({store}): {result.violation}")
            console.print(f"Replay: make chaos SEED={seed} ARGS='--store {store}'. Evidence: {PLACE.name}/")
            break
    report(total, number)
    return 1 if total.violation else 0


def run(place: Path, store: str, seed: int, seconds: float) -> Result:
    if not sys.stdout.isatty():
        return history(place, store, seed, seconds)
    with console.status(f"History in {store} from seed {seed}, for {seconds:.0f} s …"):
        return history(place, store, seed, seconds)


def history(place: Path, store: str, seed: int, seconds: float) -> Result:
    if store == "failover":
        return run_failovers(place, seed, seconds)
    if store == "restore":
        return run_restores(place, seed, seconds)
    if store == "versions":
        return run_mixed_versions(place, seed, seconds)
    return History(place, store, seed).run(seconds)


def add(total: Result, result: Result) -> None:
    total.kills += result.kills
    total.faults += result.faults
    total.events += result.events
    total.rows, total.files = total.rows + result.rows, total.files + result.files
    total.batches += result.batches
    total.violation = result.violation


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
