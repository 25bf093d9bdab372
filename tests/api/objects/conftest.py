"""S3 for tests of the bridge: moto, in a process for the session."""

import json
from collections.abc import Iterator

import pytest

from tests.support.processes import read_line, started


@pytest.fixture(scope="session")
def s3_service() -> Iterator[tuple[int, str]]:
    with started("tests.mirror.object_store.s3_server") as process:
        facts = json.loads(read_line(process))
        yield process.pid, f"http://127.0.0.1:{facts['port']}"
