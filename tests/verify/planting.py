"""The registry of planted faults: what damages a zone, each with the codes that must be found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from mirrorgate_zone.verify.codes import FindingCode
from tests.verify.zones import Zone

Content = TypeVar("Content")

Plant = Callable[[Zone], "Path | None"]
"""Damages a zone; returns the place that the finding must name, None for a finding without a file."""


@dataclass(frozen=True)
class Planted:
    """One fault, the code that must be found, and codes that come with it."""

    name: str
    plant: Plant
    code: FindingCode
    others: frozenset[FindingCode] = frozenset()


PLANTED: Final[list[Planted]] = []


def plants(code: FindingCode, *others: FindingCode) -> Callable[[Plant], Plant]:
    """Register a function that plants a fault into an empty zone. Exactly these codes must be found."""

    def register(plant: Plant) -> Plant:
        PLANTED.append(Planted(plant.__name__, plant, code, frozenset(others)))
        return plant

    return register


def plants_each(
    faults: Mapping[str, tuple[FindingCode, Content]], plant: Callable[[Zone, Content], Path | None]
) -> None:
    """Register a fault for each named content, which `plant` puts into an empty zone."""
    for name, (code, content) in faults.items():
        PLANTED.append(Planted(name, _plant_of(plant, content), code))


def _plant_of(plant: Callable[[Zone, Content], Path | None], content: Content) -> Plant:
    return lambda zone: plant(zone, content)
