"""Read rows of mirrored tables for the API, on two separate threads and within a time limit.

Other routes therefore never wait behind a slow object store, and few pages are in memory at a time. The packages that
read Delta tables are imported only if a target is configured: they take memory, and the extra `mirror`.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from app.domain.model.names import TableName
from mirrorgate.errors import Code, TemporarilyUnavailable

if TYPE_CHECKING:
    from app.domain.model.table_schema import Column
    from app.mirror.typed_rows import RowPage

ANSWER_SECONDS: Final = 30.0
"""Seconds for which a caller waits for its rows."""

MAX_READS: Final = 2
"""Pages that are read at a time."""


class MirrorRows:
    """Pages of rows in one mirror's target."""

    def __init__(self, location: str, storage_options: Mapping[str, str]) -> None:
        from app.mirror.target import MirrorTarget
        from app.mirror.typed_rows import read_rows, typed_rows
        from app.published.table_files import PublishedTable

        self._published = PublishedTable.at
        target = MirrorTarget(location, storage_options)
        self._read = partial(read_rows, target)
        self._typed = partial(typed_rows, target)
        self._threads = ThreadPoolExecutor(MAX_READS, thread_name_prefix="mirror-rows")

    async def read(self, table: TableName, version: int | None, limit: int) -> "RowPage":
        """Return a page of rows, as `read_rows`. Raises TemporarilyUnavailable if that takes too long."""
        loop = asyncio.get_running_loop()
        read = partial(self._read, self._published(table.folder), version=version, limit=limit)
        try:
            return await asyncio.wait_for(loop.run_in_executor(self._threads, read), ANSWER_SECONDS)
        except TimeoutError:
            raise TemporarilyUnavailable(
                Code.MIRROR_AWAY, f"the mirror's target did not answer within {ANSWER_SECONDS:.0f} s"
            ) from None

    def typed(self, table: TableName, columns: "Sequence[Column]", flag: str | None) -> Iterator[Sequence[Any]]:
        """Yield all rows of a table in the calling thread, as `typed_rows`. It takes as long as the table is large."""
        return self._typed(self._published(table.folder), columns, flag)

    def close(self) -> None:
        """Wait for the pages that are being read, and stop the threads."""
        self._threads.shutdown(cancel_futures=True)
