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

from app.mirror.table_mirror import MirrorLimits
from app.mirror.target import MirrorTarget
from tests.mirror.faults.conftest import FaultyTable
from tests.mirror.model.history import Mirror
from tests.mirror.model.landed import LandedFile
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


class Lake(Mirror):
    """A landing zone, a target in the bucket, and the mirror between them: one file a version, to compare each."""

    def __init__(self, root: Path, store: MirrorTarget) -> None:
        super().__init__(root, root, MirrorLimits(max_files=1))
        self.store = store

    @property
    def target(self) -> MirrorTarget:
        return self.store

    def begin(self, folder: str, *files: LandedFile) -> FaultyTable:
        table = FaultyTable(self, TableWriter(self.root, folder))
        table.begin(*files)
        return table


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
    (tmp_path / "zone").mkdir()
    return Lake(tmp_path / "zone", s3.target("/Größe 1"))
