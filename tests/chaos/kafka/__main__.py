"""`python -m tests.chaos.kafka`: kill bridges, move partitions, lose answers. Exits 1 if a record is lost or double."""

import argparse
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Final

from rich.console import Console

from tests.api.calls import ADMIN_KEY
from tests.chaos.kafka.run import Plan, run
from tests.support.http.server import api_process
from tests.support.postgres.databases import private_database

PLACE: Final = Path(__file__).resolve().parents[3] / ".chaos" / "kafka"

console = Console(highlight=False, markup=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.kafka", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="SIGKILLs of bridges (default: 200)")
    parser.add_argument("--rebalances", type=int, default=50, help="members that leave or join (default: 50)")
    parser.add_argument("--bridges", type=int, default=3, help="bridge processes (default: 3)")
    parser.add_argument("--lost", type=float, default=0.01, help="share of the answers that are lost (default: 0.01)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="default: random")
    arguments = parser.parse_args()
    plan = Plan(arguments.kills, arguments.rebalances, arguments.bridges, lost_answers=arguments.lost)
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    began = time.monotonic()
    with (
        private_database(PLACE / "postgres") as (url, engine),
        api_process(url, ADMIN_KEY) as (_, address),
        console.status("starts") as status,
    ):
        outcome = run(PLACE, address, ADMIN_KEY, engine, plan, arguments.seed, status.update)
    for violation in outcome.violations:
        console.print(f"VIOLATION: {violation}")
    console.print(
        f"{outcome.kills} kills, {outcome.rebalances} rebalances, {outcome.lost_answers} lost answers in "
        f"{time.monotonic() - began:.0f} s; {outcome.records:,} records in {outcome.requests:,} requests checked; "
        f"{len(outcome.violations) or 'no'} violation{'s' * (len(outcome.violations) != 1)}. Seed {arguments.seed}."
    )
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
