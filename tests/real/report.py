"""What a run of this suite compared, and the page that it writes."""

import re
from dataclasses import dataclass, field
from typing import Final

import pytest

from tests.support.processes import REPOSITORY

PAGE: Final = REPOSITORY / "docs" / "contribute" / "real-counterparts.md"

_HEAD: Final = """\
# Real counterparts

`make test-real` runs the gateway against programs that others wrote, and compares what lands with their data. It
installs them below `build/` and, as root, from Debian. No other target runs it. A green run writes this page. Two
parts are not real: librdkafka's mock cluster replaces Kafka, and a server of the tests replaces the schema registry.

| counterpart | what was compared | rows or cases |
|---|---|---|
"""


@dataclass
class Report:
    """Rows compared per counterpart, with its version, and test; reasons of tests that were skipped."""

    compared: dict[tuple[str, str], int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    _now: list[tuple[str, int]] = field(default_factory=list)

    def add(self, counterpart: str, rows: int) -> None:
        """Count rows, or cases such as rules, that the running test has compared with a counterpart and its version."""
        self._now.append((counterpart, rows))

    def ended(self, item: pytest.Item, outcome: pytest.TestReport) -> None:
        """Keep what a test has added, or why it was skipped."""
        if outcome.skipped and isinstance(outcome.longrepr, tuple):
            self.skipped[_claim(item.name)] = outcome.longrepr[2].removeprefix("Skipped: ")
        if outcome.when == "teardown":
            for counterpart, rows in self._now:
                named = (counterpart, _claim(item.name))
                self.compared[named] = self.compared.get(named, 0) + rows
            self._now.clear()


def _claim(test: str) -> str:
    """Return the name of a test as a sentence; its parameters are not told apart."""
    return re.sub(r"\[.*", "", test).removeprefix("test_").replace("_", " ")


def write_page(report: Report) -> None:
    """Write the page. The rows of a run are the same each time, because all workloads have a seed."""
    lines = [f"| {name} | {claim} | {rows:,} |" for (name, claim), rows in sorted(report.compared.items())]
    skips = [f"- {claim}: {reason}" for claim, reason in sorted(report.skipped.items())]
    tail = ["", "Not run here:", "", *skips] if skips else []
    PAGE.write_text(_HEAD + "\n".join([*lines, *tail]) + "\n", encoding="utf-8")
