"""Two small tables in one zone, and a mirror: what happens to one must not touch the other."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pytest

from app.domain.mirror_report import MirrorState, TableReport
from app.landing.local_zone import LocalZone
from tests.mirror.model.delta_content import delta_rows
from tests.mirror.model.history import Mirror
from tests.mirror.model.landed import DELETE, INSERT, UPSERT, Generation, LandedFile, Metadata, rows_file
from tests.mirror.model.table_model import Record
from tests.mirror.model.version_check import Checked, check_every_version
from tests.mirror.model.zone_writer import TableWriter

KEYED = Metadata(("Id",))


def some_file(number: int) -> LandedFile:
    """Return the file that tests land under a number: an insert, an upsert of key 0, a delete of an older key."""
    name = f"of file {number}"
    return rows_file((INSERT, number, name), (UPSERT, 0, name), (DELETE, number - 3, None))


@dataclass
class FaultyTable:
    """A table with its files, whose zone and target a test damages."""

    mirror: Mirror
    writer: TableWriter
    generations: list[Generation] = field(default_factory=list)

    def begin(self, *files: LandedFile, metadata: Metadata = KEYED) -> None:
        self.generations.append(Generation(metadata))
        self.writer.register(metadata)
        self.land(*files)

    def recreate(self, *files: LandedFile, metadata: Metadata = KEYED) -> None:
        self.writer.drop()
        self.begin(*files, metadata=metadata)

    def land(self, *files: LandedFile) -> None:
        for file in files:
            self.generations[-1].files.append(file)
            self.writer.land(len(self.generations[-1].files), file)

    def path(self, number: int) -> Path:
        return self.writer.path / f"{number:020d}.parquet"

    def advance(self) -> TableReport:
        return self.mirror.advance(self.writer)

    def catch_up(self) -> TableReport:
        return self.mirror.catch_up(self.writer)

    def rows(self) -> Counter[Record]:
        table = self.mirror.target.open(self.writer.table)
        return Counter() if table is None else delta_rows(table, ["id", "name"])

    def check(self, generation: int | None = None) -> Checked:
        """Compare every version of the current generation, or of one that is kept."""
        number = generation or len(self.generations)
        target = self.mirror.target
        uri = target.uri(self.writer.table, generation=generation)
        return check_every_version(uri, self.generations[number - 1], number, target.open_options())

    def finish(self) -> Checked:
        """Land one more file, mirror everything, and compare every version."""
        self.land(some_file(len(self.generations[-1].files) + 1))
        report = self.catch_up()
        assert report.state is MirrorState.IN_STEP, report
        checked = self.check()
        assert checked.last_file == len(self.generations[-1].files)
        return checked


class ActingZone(LocalZone):
    """A zone in which something happens between the listing of a file and each reading of it."""

    def __init__(self, root: Path, name: str, act: Callable[[], None]) -> None:
        super().__init__(root)
        self._name, self._act = name, act

    @contextmanager
    def read_file(self, path: str) -> Iterator[BinaryIO]:
        if path.endswith(self._name):
            self._act()
        with super().read_file(path) as file:
            yield file


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    return Mirror(tmp_path / "zone", tmp_path / "mirror")


@pytest.fixture
def table(mirror: Mirror) -> FaultyTable:
    """Give a table with files 1 to 3, of which two are mirrored."""
    table = FaultyTable(mirror, TableWriter(mirror.root, "sales.schema/Order Lines"))
    table.begin(some_file(1), some_file(2))
    assert table.catch_up().file_number == 2
    return table


@pytest.fixture
def other(mirror: Mirror) -> FaultyTable:
    other = FaultyTable(mirror, TableWriter(mirror.root, "other"))
    other.begin(some_file(1))
    return other
