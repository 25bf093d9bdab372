"""The folder of a Delta table as a file system of Arrow."""

from urllib.parse import unquote, urlsplit

from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from app.mirror.target import MirrorTarget


def table_store(target: MirrorTarget, table: DeltaTable, folder: str = "") -> fs.FileSystem:
    """Open the folder of a table, or a folder in it, as the root of a file system. Its calls raise OSError.

    Of a local folder, Arrow itself reads the files (`arrow_dataset` says why); else the object store of deltalake.
    """
    uri = f"{table.table_uri.rstrip('/')}/{folder}"
    address = urlsplit(uri)
    if address.scheme == "file":
        return fs.SubTreeFileSystem(unquote(address.path), fs.LocalFileSystem())
    return fs.PyFileSystem(DeltaStorageHandler(uri, target.open_options()))
