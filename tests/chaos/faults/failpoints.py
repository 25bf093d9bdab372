"""Named points between the steps of the protocol where a process can die, pause or fail.

The functions are wrapped in the process that asks for it; the program itself knows nothing of them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, Final
from unittest.mock import patch

from spark_jobs import build_files, drain_cycle
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.steps import dropping, publishing, take_over
from spark_jobs.steps.dropping import Dropping
from spark_jobs.steps.publishing import Publishing
from spark_jobs.steps.take_over import Claiming, TakeOver

Steps = Mapping[str, tuple[Any, str]]
"""By the name of a step: where its function is, and the function's name."""

_STEPS: Final[Steps] = {
    "W1 claim": (Claiming, "run"),
    "W2 revoke": (take_over, "revoke_older_epochs"),
    "W3 look": (take_over, "recover_visible_file"),
    "W2-W3 take over": (TakeOver, "run"),
    "W4 plan, not committed": (drain_cycle, "plan_next_files"),
    "W4 plan": (DrainCycle, "prepare"),
    "W4 plan of held tables": (DrainCycle, "prepare_leased"),
    "W5 build": (build_files, "build_file"),
    "W5 register, not committed": (publishing, "register_builds"),
    "W6 folder": (publishing, "prepare_folder"),
    "W7 rename": (publishing, "make_visible"),
    "W8 record, not committed": (publishing, "record_published"),
    "W8 record": (Publishing, "record"),
    "W9 next files": (Publishing, "_publish_one_of_each"),
    "R3-R5 remove the folder": (dropping, "remove_table_folder"),
    "R6 new generation, not committed": (dropping, "finish_drop"),
    "R6 new generation": (Dropping, "run"),
}


def points_of(steps: Steps) -> tuple[str, ...]:
    """Return the names of the points before and after each step."""
    return tuple(f"{when} {step}" for step in steps for when in ("before", "after"))


POINTS: Final = points_of(_STEPS)

_OUTSIDE_OF_A_TABLE: Final = ("W4 plan", "W4 plan of held tables", "W9 next files")
"""Steps that wrap what is done for each table: what fails there fails for all, and the loop tries them again."""

CONTAINED: Final = frozenset(points_of({step: at for step, at in _STEPS.items() if step not in _OUTSIDE_OF_A_TABLE}))
"""Points where an unforeseen exception must stop only one table."""


@contextmanager
def failpoints(reached: Callable[[str], None], steps: Steps = _STEPS) -> Iterator[None]:
    """Within the block `reached` is called with the name of each point of `steps` that is passed."""
    with ExitStack() as stack:
        for step, (owner, name) in steps.items():
            stack.enter_context(patch.object(owner, name, _wrapped(step, getattr(owner, name), reached)))
        yield


def _wrapped(step: str, function: Callable[..., Any], reached: Callable[[str], None]) -> Callable[..., Any]:
    """Return the function with a point before and one after it."""

    @wraps(function)
    def run(*arguments: Any, **named: Any) -> Any:
        reached(f"before {step}")
        result = function(*arguments, **named)
        reached(f"after {step}")
        return result

    return run
