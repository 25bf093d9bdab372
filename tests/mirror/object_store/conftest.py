"""A bucket for each test, in one S3 service per session."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from app.domain.mirror_report import MirrorState, TableReport
from app.landing.local_zone import LocalZone
from app.mirror.table_mirror import MirrorLimits, advance_table
from app.mirror.target import MirrorTarget
from tests.mirror.model.landed import Generation, LandedFile, Metadata
from tests.mirror.model.version_check import Checked, check_every_version
from tests.mirror.model.zone_writer import TableWriter
from tests.support.processes import read_line, started


@dataclass(frozen=True)
class S3:
    """The service: its options for any bucket, and the keys that `guarded` accepts."""

    pid: int
    options: dict[str, str]
    keys: dict[str, str]

    def target(self, prefix: str = "", **options: str) -> MirrorTarget:
        """Return a new place in the bucket `lake`."""
        return MirrorTarget(f"s3://lake/{uuid4().hex}{prefix}", self.options | options)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Let no request have an answer within the block."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)


@dataclass
class Lake:
    """A landing zone, a target in the bucket, and the mirror between them, run in this process."""

    root: Path
    target: MirrorTarget
    limits: MirrorLimits

    def begin(self, folder: str, *files: LandedFile) -> "LakeTable":
        table = LakeTable(self, TableWriter(self.root, folder), [])
        table.begin(*files)
        return table


@dataclass
class LakeTable:
    """A table of the zone, with what was landed in it."""

    lake: Lake
    writer: TableWriter
    generations: list[Generation]

    def begin(self, *files: LandedFile) -> None:
        self.generations.append(Generation(Metadata(("Id",))))
        self.writer.register(self.generations[-1].metadata)
        self.land(*files)

    def recreate(self, *files: LandedFile) -> None:
        self.writer.drop()
        self.begin(*files)

    def land(self, *files: LandedFile) -> None:
        for file in files:
            self.generations[-1].files.append(file)
            self.writer.land(len(self.generations[-1].files), file)

    def advance(self) -> TableReport:
        return advance_table(LocalZone(self.lake.root), self.lake.target, self.writer.table, self.lake.limits)

    def catch_up(self) -> TableReport:
        while (report := self.advance()).state is MirrorState.BEHIND:
            pass
        return report

    def check(self) -> Checked:
        target = self.lake.target
        return check_every_version(target.uri(self.writer.table), self.generations[-1], 1, target.open_options())


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    with started("tests.mirror.object_store.s3_server") as process:
        facts = json.loads(read_line(process))
        options = {
            "aws_endpoint_url": f"http://127.0.0.1:{facts.pop('port')}",
            "aws_allow_http": "true",
            "aws_region": "us-east-1",
            "aws_access_key_id": "AKIDTEST",
            "aws_secret_access_key": "secret-of-any-bucket",
        }
        yield S3(process.pid, options, facts)


@pytest.fixture
def lake(s3: S3, tmp_path: Path) -> Lake:
    """Give a zone and a target that is one file a version: every version can be compared."""
    (tmp_path / "zone").mkdir()
    return Lake(tmp_path / "zone", s3.target("/Größe 1"), MirrorLimits(max_files=1))
