"""Other programs read the same rows from a mirrored table as the independent model has."""

from urllib.parse import unquote

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.mirror.model.mirrored_table import MirroredTable
from tests.mirror.model.publisher import FOLDERS


@pytest.fixture(scope="module", params=range(2), ids=FOLDERS[:2])
def mirrored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MirroredTable:
    return MirroredTable(tmp_path_factory.mktemp("readers"), FOLDERS[request.param], request.param)


def test_duckdb_reads_it_as_arrow(mirrored: MirroredTable) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("mirrored", DeltaTable(mirrored.uri).to_pyarrow_dataset())
        mirrored.compare(connection.sql("SELECT * FROM mirrored").to_arrow_table())


def test_duckdb_reads_the_parquet_files_that_the_log_names(mirrored: MirroredTable) -> None:
    """The log has URLs, in which a blank is `%20`."""
    files = [unquote(file) for file in DeltaTable(mirrored.uri).file_uris()]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        mirrored.compare(connection.read_parquet(files, union_by_name=True).to_arrow_table())


def test_polars_reads_it(mirrored: MirroredTable) -> None:
    """Its own reader of Delta takes no blanks in a path; Arrow takes all."""
    frame = polars.from_arrow(DeltaTable(mirrored.uri).to_pyarrow_table())
    assert isinstance(frame, polars.DataFrame)
    mirrored.compare(frame.to_arrow())
    if mirrored.has_plain_path:
        mirrored.compare(polars.read_delta(mirrored.uri).to_arrow())
        mirrored.compare(polars.scan_delta(mirrored.uri).collect().to_arrow())


def test_pandas_reads_it(mirrored: MirroredTable) -> None:
    pandas = pytest.importorskip("pandas", reason="PyArrow imports pandas everywhere once it is installed")
    found = DeltaTable(mirrored.uri).to_pandas(types_mapper=pandas.ArrowDtype)
    mirrored.compare(pa.Table.from_pandas(found, preserve_index=False))
