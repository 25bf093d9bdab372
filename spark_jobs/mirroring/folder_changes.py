"""Which table folders have changed since the mirror last looked, at little cost per table.

In a local zone, one `stat` per folder tells: a file that is added, removed or renamed changes the folder's modification
time. A file system's clock has ticks, so a folder that changed within the last two seconds is listed as well. In a
remote zone, each folder is listed.
"""

import os
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

from app.landing.open_zone import ZoneAddress
from app.landing.zone import LandingZone
from app.published.table_folders import PublishedTable

_SETTLED_NS: Final = 2 * 10**9
"""Longer than the tick of any file system's clock that a landing zone may have."""
_MAX_REQUESTS: Final = 16
"""Folders of a remote zone that are listed at the same time."""

Stamp: TypeAlias = Hashable
"""Equal stamps: no file of the folder was added, removed or renamed in between."""
TakeStamps: TypeAlias = Callable[[Sequence[PublishedTable]], Mapping[PublishedTable, Stamp]]


def stamps_of(address: ZoneAddress, zone: LandingZone) -> TakeStamps:
    """Return the function that takes the stamps of tables of a zone. It raises OSError if a remote store fails."""
    if address.is_remote:
        return lambda tables: _listed(zone, tables)
    return lambda tables: {table: _local_stamp(f"{address.location}/{table.folder}") for table in tables}


def _local_stamp(folder: str) -> Stamp:
    try:
        state = os.stat(folder)  # noqa: PTH116  # a Path per table and round costs more than the call
        settled = time.time_ns() - state.st_mtime_ns > _SETTLED_NS
        names = None if settled else frozenset(os.listdir(folder))  # noqa: PTH208
    except OSError:  # it is gone, or a task reports why it cannot be read
        return None
    return state.st_dev, state.st_ino, state.st_mtime_ns, names


def _listed(zone: LandingZone, tables: Sequence[PublishedTable]) -> dict[PublishedTable, Stamp]:
    with ThreadPoolExecutor(_MAX_REQUESTS, thread_name_prefix="zone-listing") as threads:
        names = threads.map(lambda table: frozenset(zone.names(table.folder)), tables)
        return dict(zip(tables, names, strict=True))
