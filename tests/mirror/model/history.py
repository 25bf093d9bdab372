"""Random histories of several tables in one landing zone, and a mirror that follows them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from app.domain.mirror_report import MirrorState, TableReport
from app.landing.local_zone import LocalZone
from app.mirror.table_mirror import MirrorLimits, advance_table, inspect_table
from app.mirror.target import MirrorTarget
from tests.mirror.model.landed import Generation
from tests.mirror.model.publisher import FOLDERS, Publisher, Style
from tests.mirror.model.version_check import Checked, check_every_version
from tests.mirror.model.zone_writer import TableWriter

STYLES: Final = (
    Style(keys=1),
    Style(keys=3, key_pool=1_500),
    Style(keys=0, first_columns=8),
    Style(keys=1, upsert_by_default=True, null_keys=0.0),
    Style(keys=2, null_keys=0.05),
)
MAX_ADVANCES: Final = 1_000


@dataclass
class Mirror:
    """A zone and a target, and the mirror between them, run in this process."""

    root: Path
    location: Path
    limits: MirrorLimits = field(default_factory=MirrorLimits)

    @property
    def target(self) -> MirrorTarget:
        return MirrorTarget(str(self.location))

    def advance(self, writer: TableWriter) -> TableReport:
        return advance_table(LocalZone(self.root), self.target, writer.table, self.limits)

    def inspect(self, writer: TableWriter) -> TableReport:
        return inspect_table(LocalZone(self.root), self.target, writer.table)

    def catch_up(self, writer: TableWriter) -> TableReport:
        """Advance until nothing is left to do; return the last report."""
        for _ in range(MAX_ADVANCES):
            report = self.advance(writer)
            if report.state is not MirrorState.BEHIND:
                return report
        raise AssertionError(f"{writer.table} is still behind after {MAX_ADVANCES} commits")


@dataclass
class TableHistory:
    """One table through its generations."""

    source: random.Random
    writer: TableWriter
    style: Style
    generations: list[Generation] = field(default_factory=list)
    publisher: Publisher = field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    @property
    def current(self) -> Generation:
        return self.generations[-1]

    def begin(self) -> None:
        """Register the table, anew or for the first time, with other columns."""
        self.publisher = Publisher(self.source, self.style)
        self.generations.append(Generation(self.publisher.metadata))
        self.writer.register(self.publisher.metadata)

    def land(self, changes: int) -> None:
        file = self.publisher.file(changes)
        if not self.current.files and not file.columns:
            file = replace(file, columns=tuple(self.publisher.columns))
        self.current.files.append(file)
        self.writer.land(len(self.current.files), file)

    def step(self, changes: int) -> None:
        """Land a file, sometimes after the table gained a column."""
        if self.source.random() < 0.06:
            self.publisher.add_column()
        self.land(changes)

    def recreate(self) -> None:
        """Drop the table and register it anew."""
        self.writer.drop()
        self.begin()

    def check(self, mirror: Mirror) -> list[Checked]:
        """Compare every version of every generation that the mirror has begun."""
        table, found = self.writer.table, []
        begun = [number for number, each in enumerate(self.generations, 1) if each.files]
        for number in begun:
            is_current = number == len(self.generations)
            uri = mirror.target.uri(table, generation=None if is_current else number)
            found.append(check_every_version(uri, self.generations[number - 1], number))
        assert found[-1].last_file == len(self.current.files), f"{self.writer.table}: {found}"
        return found


def file_sizes(source: random.Random, changes: int, mean: int) -> Sequence[int]:
    """Return sizes of files that add up: many small ones, some large, some without rows."""
    sizes = []
    while changes > 0:
        size = source.choice((0, 1, 3, mean // 4, mean // 2, mean, mean, mean * 3))
        sizes.append(min(size, changes))
        changes -= sizes[-1]
    return sizes


def open_histories(source: random.Random, root: Path, styles: Sequence[Style] = STYLES) -> list[TableHistory]:
    writers = (TableWriter(root, folder) for folder in FOLDERS)
    return [TableHistory(source, writer, style) for writer, style in zip(writers, styles, strict=False)]
