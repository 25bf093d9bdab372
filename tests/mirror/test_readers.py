"""Other programs read the same rows from a mirrored table as the independent model has."""

import random
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from app.settings import Settings
from spark_jobs.spark.session import running_spark
from tests.mirror.model.delta_content import arrow_rows
from tests.mirror.model.history import Mirror, TableHistory
from tests.mirror.model.publisher import FOLDERS, Style
from tests.mirror.model.table_model import TableModel
from tests.mirror.model.version_check import assert_equal_rows
from tests.mirror.model.zone_writer import TableWriter


class Mirrored:
    """One table with every kind of column, and its model."""

    def __init__(self, place: Path, folder: str, seed: int) -> None:
        source = random.Random(seed)
        mirror = Mirror(place / "zone", place / "mirror")
        history = TableHistory(source, TableWriter(mirror.root, folder), Style(keys=2, first_columns=20))
        for _ in range(8):
            history.publisher.add_column()
            history.land(60)
            mirror.catch_up(history.writer)
        self.uri = mirror.target.uri(history.writer.table)
        self.model = TableModel()
        for file in history.current.files:
            self.model.apply(file, history.current.metadata)

    @property
    def has_plain_path(self) -> bool:
        return self.uri.isascii() and " " not in self.uri

    def compare(self, found: pa.Table) -> None:
        assert_equal_rows(arrow_rows(found, list(self.model.columns)), self.model.rows(), self.uri)


@pytest.fixture(scope="module", params=range(3), ids=FOLDERS[:3])
def mirrored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mirrored:
    return Mirrored(tmp_path_factory.mktemp("readers"), FOLDERS[request.param], request.param)


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def test_duckdb_reads_it_as_arrow(mirrored: Mirrored, connection: duckdb.DuckDBPyConnection) -> None:
    connection.register("mirrored", DeltaTable(mirrored.uri).to_pyarrow_dataset())
    mirrored.compare(connection.sql("SELECT * FROM mirrored").to_arrow_table())


def test_duckdb_reads_the_parquet_files_that_the_log_names(
    mirrored: Mirrored, connection: duckdb.DuckDBPyConnection
) -> None:
    """The log has URLs, in which a blank is `%20`."""
    files = [unquote(file) for file in DeltaTable(mirrored.uri).file_uris()]
    mirrored.compare(connection.read_parquet(files, union_by_name=True).to_arrow_table())


def test_polars_reads_it(mirrored: Mirrored) -> None:
    """Its own reader of Delta takes no blanks in a path; Arrow takes all."""
    frame = polars.from_arrow(DeltaTable(mirrored.uri).to_pyarrow_table())
    assert isinstance(frame, polars.DataFrame)
    mirrored.compare(frame.to_arrow())
    if mirrored.has_plain_path:
        mirrored.compare(polars.read_delta(mirrored.uri).to_arrow())
        mirrored.compare(polars.scan_delta(mirrored.uri).collect().to_arrow())


def test_pandas_reads_it(mirrored: Mirrored) -> None:
    pandas = pytest.importorskip("pandas", reason="PyArrow imports pandas everywhere once it is installed")
    found = DeltaTable(mirrored.uri).to_pandas(types_mapper=pandas.ArrowDtype)
    mirrored.compare(pa.Table.from_pandas(found, preserve_index=False))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with running_spark(Settings(spark_master="local[1]")) as session:
        yield session


@pytest.mark.spark
def test_pyspark_takes_it_over_arrow(mirrored: Mirrored, spark: SparkSession) -> None:
    frame = spark.createDataFrame(DeltaTable(mirrored.uri).to_pyarrow_table())
    assert frame.count() == mirrored.model.row_count
    mirrored.compare(frame.toArrow())
