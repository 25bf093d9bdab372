"""The figures by name. The docstring of each module says what it measures; one module may give several figures."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Final, TypeAlias

from benchmarks.bench import Bench
from benchmarks.reports.figure import Figure

Measure: TypeAlias = Callable[[Bench], list[Figure]]

NAMES: Final = (
    "bulk",
    "small",
    "drain",
    "standalone",
    "end_to_end",
    "memory",
    "partial_updates",
    "freshness",
    "tables",
    "backlog",
    "size",
    "workloads",
    "initial_load",
    "costs",
)


def find_figures(names: Iterable[str] = NAMES) -> Mapping[str, Measure]:
    """Return the function that measures each of these figures, in the order given."""
    return {name: import_module(f"benchmarks.figures.{name}").measure for name in names}


def figure_summaries() -> Mapping[str, str]:
    """Return one line on each figure."""
    modules = {name: import_module(f"benchmarks.figures.{name}") for name in NAMES}
    return {name: (module.__doc__ or "").splitlines()[0] for name, module in modules.items()}
