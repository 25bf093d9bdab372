"""How the cost of a change grows with a size: points, and the exponent that fits them."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.machine.description import Machine, Versions
from benchmarks.reports.figure import BenchmarkFailed


class Point(msgspec.Struct, frozen=True):
    """Microseconds per change at one size: until it is durable, and from there until it is published."""

    size: int
    accept: float
    publish: float


class Series(msgspec.Struct, frozen=True):
    """The points of one size that grows; `title` says which."""

    name: str
    title: str
    points: tuple[Point, ...]

    @property
    def accept_exponent(self) -> float:
        """Return the exponent of the cost until a change is durable."""
        return exponent([(point.size, point.accept) for point in self.points])

    @property
    def publish_exponent(self) -> float:
        """Return the exponent of the cost from there until it is published."""
        return exponent([(point.size, point.publish) for point in self.points])


class Growth(msgspec.Struct, frozen=True):
    """All series of one run, and what they were measured on."""

    taken_at: str
    machine: Machine
    versions: Versions
    scale: float
    series: tuple[Series, ...]


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Return the e of cost = c · size^e by least squares over the logarithms.

    0 means that the cost does not grow, 1 that it grows in proportion.
    """
    sizes, costs = [math.log(size) for size, _ in points], [math.log(cost) for _, cost in points]
    return statistics.linear_regression(sizes, costs).slope


def read_growth(file: Path) -> Growth:
    """Read a growth file.

    Raises BenchmarkFailed for a file that is missing or holds something else.
    """
    try:
        return msgspec.json.decode(file.read_bytes(), type=Growth)
    except (OSError, msgspec.MsgspecError) as error:
        raise BenchmarkFailed(f"{file} holds no growth measurements: {error}") from error


def write_growth(file: Path, growth: Growth) -> None:
    """Write a growth file; its folder is created."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(growth), indent=1) + b"\n")
