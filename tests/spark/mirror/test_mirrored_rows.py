"""PySpark takes the rows of a mirrored table over Arrow, without a Delta connector."""

from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.mirror.model.mirrored_table import MirroredTable


def test_pyspark_takes_a_mirrored_table_over_arrow(tmp_path: Path, spark: SparkSession) -> None:
    mirrored = MirroredTable(tmp_path, "sales.schema/Order Lines", seed=3)
    frame = spark.createDataFrame(DeltaTable(mirrored.uri).to_pyarrow_table())
    assert frame.count() == mirrored.model.row_count
    mirrored.compare(frame.toArrow())
