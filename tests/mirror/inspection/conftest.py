"""A table as the mirror commits it, for tests that need no landing zone."""

from pathlib import Path

import pytest

from tests.mirror.inspection.mirrored import Mirrored


@pytest.fixture
def table(tmp_path: Path) -> Mirrored:
    return Mirrored(tmp_path)
