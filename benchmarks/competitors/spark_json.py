"""Spark's own reader and writer: JSON with a given schema, casts, Parquet, on all cores."""

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def read(spark: SparkSession, source: str, names: list[str]) -> DataFrame:
    """Return the changes as typed rows."""
    image = ", ".join(f"{name}: STRING" for name in names)
    messages = spark.read.schema(f"opType STRING, after STRUCT<{image}>").json(source)
    numbers = set(names[: len(names) // 2])
    columns = [f.col(f"after.{name}").cast("long" if name in numbers else "string").alias(name) for name in names]
    marker = f.when(f.col("opType") == "I", 0).when(f.col("opType") == "U", 1).when(f.col("opType") == "D", 2)
    return messages.select(*columns, marker.otherwise(4).alias("__rowMarker__"))


def main() -> None:
    """Convert the files of the job on standard input again and again; print changes per second."""
    job = json.load(sys.stdin)
    files = sorted(Path(job["source"]).iterdir())
    lines = [line for file in files for line in file.read_bytes().splitlines()]
    names = list(json.loads(lines[0])["after"])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")

    def convert() -> None:
        read(spark, job["source"], names).write.mode("append").parquet(job["target"], compression="zstd")

    convert()
    changes, elapsed, started = 0, 0.0, time.perf_counter()
    while elapsed < job["seconds"]:
        convert()
        changes += len(lines)
        elapsed = time.perf_counter() - started
    sys.stdout.write(f"{changes / elapsed}\n")
    sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main()
