"""Explore the larger cases, or show what happens without the rule that is named.

`python -m tests.protocol [RULE]`
"""

import sys
import time

from tests.protocol.cases import LARGE_BOUNDS, REQUIRED
from tests.protocol.explore import Exploration
from tests.protocol.progress import first_without_progress
from tests.protocol.rules import Case, Rule


def explore(name: str, case: Case) -> None:
    started = time.perf_counter()
    exploration = Exploration(case)
    found = exploration.violation or first_without_progress(exploration)
    seconds = time.perf_counter() - started
    sys.stdout.write(f"{name}: {exploration.states:,} states in {seconds:.0f} s: {found or 'sound'}\n")


def main(names: list[str]) -> None:
    for name in names:
        bounds, _ = REQUIRED[Rule[name]]
        explore(f"without {name}", Case(bounds).without(Rule[name]))
    if not names:
        for world, bounds in LARGE_BOUNDS.items():
            explore(world, Case(bounds))


main(sys.argv[1:])
