"""`python -m tests.overload --seconds 120`: ten times the load that an API process accepts. Exits 1 for a violation."""

import argparse
import logging
import sys
import tempfile
from pathlib import Path

import structlog
from rich.console import Console

from tests.overload.run import Outcome, overload
from tests.support.postgres.databases import private_database

console = Console(highlight=False, markup=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.overload", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="length of the load (default: 120)")
    seconds = parser.parse_args().seconds
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory() as folder, private_database(Path(folder) / "postgres") as (url, engine):
        outcome = overload(url, engine, seconds)
    report(outcome, seconds)
    return 1 if outcome.violations or outcome.peak_bytes > outcome.most_bytes else 0


def report(outcome: Outcome, seconds: float) -> None:
    for what, count in outcome.answers.most_common():
        console.print(f"{count:10,}  {what}")
    for path, wait in outcome.slowest.items():
        console.print(f"GET {path}: {len(outcome.waits[path])} answers, 99 of 100 within {wait:.2f} s")
    console.print(
        f"In {seconds:.0f} s {outcome.accepted.total():,} requests were accepted, each staged once; the table that is "
        f"not drained holds {outcome.stopped_rows:,} rows; at most {outcome.peak_bytes / 2**20:,.0f} MiB resident, "
        f"bound {outcome.most_bytes / 2**20:,.0f} MiB."
    )
    for violation in outcome.violations:
        console.print(f"VIOLATION: {violation}")


if __name__ == "__main__":
    sys.exit(main())
