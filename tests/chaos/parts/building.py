"""Step W5 in the drain's own process: the attempts of a Spark task, without Spark."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from spark_jobs.build_files import BuildOrder, BuildResult, FileBuilder, attempt_build


@contextmanager
def builds_in_process() -> Iterator[None]:
    """Within the block drains of this process build their files themselves."""
    with patch.object(FileBuilder, "build", _build):
        yield


def _build(self: FileBuilder, orders: Sequence[BuildOrder]) -> list[BuildResult]:
    return [attempt_build(self.config, order) for order in orders]
