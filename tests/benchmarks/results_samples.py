"""Results of benchmarks that were never run."""

from collections.abc import Sequence

import msgspec

from benchmarks.costs import Costs
from benchmarks.machine.description import Machine, Versions
from benchmarks.reports.figure import Figure, Goal, Measured
from benchmarks.reports.growth_results import Growth, Point, Series
from benchmarks.reports.results import Results


def figure(
    name: str = "bulk", value: Sequence[float] = (50, 60, 70), limit: Sequence[float] = (100, 100, 100),
    goal: Goal | None = None,
) -> Figure:  # fmt: skip
    return Figure(name, f"Title of {name}", "changes/s", Measured.of(value), Measured.of(limit), "a limit", goal)


def results(*figures: Figure, **others: object) -> Results:
    machine = Machine("a cpu", 2, 24.0, "a system", 0.1)
    versions = Versions("0123456789", "3.11.7", "18.4", {"pyarrow": "26.0.1"})
    taken = Results("2026-01-05T09:30:00+00:00", machine, versions, 3, 1.0, 8.0, figures)
    return msgspec.structs.replace(taken, **others)


def growth() -> Growth:
    taken = results()
    points = tuple(Point(size, 10.0, 2.0 * size) for size in (1, 10, 100))
    series = (Series("tables", "tables, fed in turn", points),)
    return Growth(taken.taken_at, taken.machine, taken.versions, 1.0, series)


def costs() -> Costs:
    """Return costs with round numbers."""
    return Costs(
        api=10.0,
        postgres_accepting=2.0,
        drain=4.0,
        postgres_draining=0.5,
        sent_bytes=1_000.0,
        log_bytes=100.0,
        staged_bytes=80.0,
        disk_bytes=90.0,
        file_bytes=20.0,
    )
