"""The registry of planted faults: functions that damage a zone, each with the codes that must be found."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mirrorgate_zone.verify.codes import FindingCode
from tests.verify.zones import Zone

Plant = Callable[[Zone], "Path | None"]
"""Damages a zone; returns the place that the finding must name, None for a finding without a file."""


@dataclass(frozen=True)
class Planted:
    """One fault, the code that must be found, and codes that come with it."""

    plant: Plant
    code: FindingCode
    others: frozenset[FindingCode]


PLANTED: Final[list[Planted]] = []


def plants(code: FindingCode, *others: FindingCode) -> Callable[[Plant], Plant]:
    """Register a function that plants a fault into an empty zone. Exactly these codes must be found."""

    def register(plant: Plant) -> Plant:
        PLANTED.append(Planted(plant, code, frozenset(others)))
        return plant

    return register
