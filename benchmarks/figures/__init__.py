"""The figures by name. The docstring of each module says what it measures; one module may give several figures."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Final, TypeAlias

from benchmarks.bench import Bench
from benchmarks.reports.figure import Figure

Measure: TypeAlias = Callable[[Bench], list[Figure]]

GOALS: Final = (
    "bulk",
    "replicate",
    "debezium",
    "partial_updates",
    "row_images",
    "small_10",
    "small",
    "many_tables",
    "end_to_end",
    "path_length",
    "reading_lines",
)
"""Modules of `benchmarks.figures.goals`."""
MIRROR: Final = ("mirror_inserts", "mirror_freshness", "mirror_fold", "mirror_tables")
"""Modules of `benchmarks.figures.mirror`."""
NAMES: Final = (
    *GOALS,
    "drain",
    "standalone",
    "memory",
    "freshness",
    "tables",
    "backlog",
    "size",
    "workloads",
    "initial_load",
    "rows",
    "projection",
    "encodings",
    "kafka",
    "objects",
    *MIRROR,
    "costs",
)


def find_figures(names: Iterable[str] = NAMES) -> Mapping[str, Measure]:
    """Return the function that measures each of these figures, in the order given."""
    return {name: _module(name).measure for name in names}


def figure_summaries() -> Mapping[str, str]:
    """Return one line on each figure."""
    return {name: (_module(name).__doc__ or "").splitlines()[0] for name in NAMES}


def _module(name: str) -> ModuleType:
    package = "goals." if name in GOALS else "mirror." if name in MIRROR else ""
    return import_module(f"benchmarks.figures.{package}{name}")
