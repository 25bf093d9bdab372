"""`python -m spark_jobs.doctor`: examine Spark's executors, and print JSON findings on standard output.

Each task writes its own file into a probe folder. The driver must then see all of them.
"""

import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import uuid4

import msgspec
from pyspark.sql import SparkSession

from app.checks.preflight import installed_versions
from app.domain.preflight import ExecutorFacts, Finding, Seen, ZoneCheck, judge_executors, judge_seen
from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.probe import clean_up, probe_folder
from app.local.child_process import run_process
from app.observability.telemetry import configure_logging
from app.settings import Settings
from app.staging.connection.database import disposed, installation_id, open_engine, translated_errors
from app.zone_settings import zone_address
from mirrorgate.errors import MirrorgateError
from spark_jobs.spark.session import running_spark


def examine_executors(spark: SparkSession, address: ZoneAddress, database_url: str) -> list[Finding]:
    """Run a task on each of Spark's slots, and compare the executors with the driver.

    A process that dies inside leaves a hidden folder in scratch, which a sweep deletes.
    """
    zone, folder = open_zone(address), probe_folder()
    zone.create_folder(folder)
    try:
        slots = max(2, spark.sparkContext.defaultParallelism)
        tasks = spark.sparkContext.parallelize(range(slots), slots).mapPartitions(_task(address, folder, database_url))
        asked = time.time()
        told = tasks.collect()
        answered = time.time()
        listed = set(zone.names(folder))
    finally:
        left = clean_up(zone, folder)
    driver = installed_versions()
    executors = [
        ExecutorFacts(entry["host"], entry["versions"], _ahead(entry["now"], asked, answered), entry["database"])
        for entry in told
    ]
    unseen = [f"executor {entry['host']}: {entry['failure']}" for entry in told if entry["failure"]]
    unseen += [f"a file of executor {entry['host']} is not seen" for entry in told if entry["file"] not in listed]
    writes = judge_seen(Seen(ZoneCheck.EXECUTOR_WRITES, "; ".join(sorted(set(unseen))) or None))
    return [writes, judge_seen(left), *judge_executors(driver, executors)]


def _task(address: ZoneAddress, folder: str, database_url: str) -> Callable[[Iterable[int]], Iterator[dict[str, Any]]]:
    def run(slots: Iterable[int]) -> Iterator[dict[str, Any]]:
        return (_executor_report(address, folder, database_url) for _ in slots)

    return run


def _executor_report(address: ZoneAddress, folder: str, database_url: str) -> dict[str, Any]:
    file = uuid4().hex
    return {
        "host": socket.gethostname(),
        "now": time.time(),
        "versions": installed_versions(),
        "file": file,
        "failure": _failure(lambda: open_zone(address).create_file(f"{folder}/{file}", b"x")),
        "database": _failure(lambda: _ask(database_url)),
    }


def _ahead(now: float, asked: float, answered: float) -> float:
    """Return by how many seconds at least a clock is ahead of ours; negative if it is behind.

    `now` is its reading between our moments `asked` and `answered`.
    """
    return max(0.0, now - answered) + min(0.0, now - asked)


def _ask(database_url: str) -> None:
    engine = open_engine(database_url, pool_size=1, application="mirrorgate doctor")
    with disposed(engine), translated_errors(), engine.connect() as connection:
        installation_id(connection)


def _failure(act: Callable[[], object]) -> str | None:
    """Return why the act failed, None if it did not: a task always returns a report."""
    try:
        act()
    except Exception as error:  # noqa: BLE001
        return error.detail if isinstance(error, MirrorgateError) else f"{type(error).__name__}: {error}"
    return None


def main() -> None:
    """Examine the executors and print the findings."""
    settings = Settings.from_environment()
    configure_logging(settings)
    with running_spark(settings) as spark:
        findings = examine_executors(spark, zone_address(settings), settings.require_database_url())
    sys.stdout.write(msgspec.json.encode(findings).decode() + "\n")


if __name__ == "__main__":
    run_process(main, is_child=True)
