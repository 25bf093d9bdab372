"""The Delta tables of an object store, listed through deltalake's own client, with the options that it writes with."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

_LOG_FOLDER: Final = "_delta_log"
_REQUESTS: Final = 16


def remote_tables(location: str, options: Mapping[str, str]) -> list[str]:
    """Return the paths of the Delta tables below an address, in any order. Raise OSError if the store fails.

    Two levels are listed: `<schema>/<table>` and `<table>`. Names with a leading `_` are no tables, such as the lease.
    """
    store = fs.PyFileSystem(DeltaStorageHandler(location, dict(options)))
    first = _tables(_folders(store, ""))
    with ThreadPoolExecutor(_REQUESTS) as threads:
        below = dict(zip(first, threads.map(lambda name: _folders(store, name), first), strict=True))
        found = [name for name in first if _LOG_FOLDER in below[name]]
        inner = [f"{name}/{table}" for name in first if name not in found for table in _tables(below[name])]
        kinds = threads.map(lambda path: _is_table(store, path), inner)
        return found + [path for path, is_table in zip(inner, kinds, strict=True) if is_table]


def _folders(store: fs.FileSystem, path: str) -> list[str]:
    entries = store.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return [entry.base_name for entry in entries if entry.type is fs.FileType.Directory]


def _tables(names: list[str]) -> list[str]:
    return [name for name in names if not name.startswith("_")]


def _is_table(store: fs.FileSystem, path: str) -> bool:
    return bool(store.get_file_info(f"{path}/{_LOG_FOLDER}").type is fs.FileType.Directory)
