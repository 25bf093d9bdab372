"""W5 in the drain's own process: the attempts of a Spark task, without Spark."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from app.domain.model.landing_file import BuiltFile
from spark_jobs import build_files, drain_cycle
from spark_jobs.build_files import BuildConfig, BuildFailure, BuildOrder


@contextmanager
def builds_in_process() -> Iterator[None]:
    """Within the block drains of this process build their files themselves."""
    with patch.object(drain_cycle, "build_files", _build):
        yield


def _build(_: object, place: BuildConfig, orders: Sequence[BuildOrder], **__: int) -> list[BuiltFile | BuildFailure]:
    rows = [(order, build_files._attempt(place, position, order)) for position, order in enumerate(orders)]
    return [build_files._result(order, row) for order, row in rows]
