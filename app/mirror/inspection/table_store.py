"""The folder of a Delta table as a file system of Arrow, through the object store that deltalake uses."""

from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from app.mirror.target import MirrorTarget


def table_store(target: MirrorTarget, table: DeltaTable, folder: str = "") -> fs.FileSystem:
    """Open the folder of a table, or a folder in it, as the root of a file system. Its calls raise OSError."""
    uri = f"{table.table_uri.rstrip('/')}/{folder}"
    return fs.PyFileSystem(DeltaStorageHandler(uri, dict(target.storage_options) or None))
