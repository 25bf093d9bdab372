"""The rows of a Delta table as an Arrow dataset, which reads only the files and columns that are asked for."""

from urllib.parse import unquote, urlsplit

import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyarrow import fs


def arrow_dataset(delta: DeltaTable) -> ds.Dataset:
    """Return the open version of a table as a dataset, without reading it.

    Of a local folder, Arrow itself reads the files. deltalake's file system is written in Python: when Arrow's threads
    release it while the interpreter ends, the process aborts (deltalake 1.6, one in 30 short runs).
    """
    address = urlsplit(delta.table_uri)
    if address.scheme != "file":
        return delta.to_pyarrow_dataset()
    return delta.to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(unquote(address.path), fs.LocalFileSystem()))
