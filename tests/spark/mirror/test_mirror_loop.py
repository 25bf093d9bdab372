"""The mirror's loop with real Spark tasks: stores that are away, full disks, changed folders, and many tables."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from app.domain.mirror_report import MirrorState, TableReport
from app.landing.open_zone import ZoneAddress
from app.mirror.table_mirror import MirrorLimits
from app.mirror.target import MirrorTarget
from app.mirror.target_lock import HeldTarget, exclusive_target
from mirrorgate.errors import Code
from spark_jobs.mirroring.loop import MirrorLoop
from spark_jobs.mirroring.task import MirrorJob
from tests.mirror.model.mirrored_table import MirroredTable
from tests.spark.mirror.mirrors import Zone
from tests.support.waiting import wait_until


@pytest.fixture
def zone(tmp_path: Path) -> Zone:
    return Zone(tmp_path)


def loop_over(spark: SparkSession, zone: Zone, held: HeldTarget, **options: frozenset[str]) -> MirrorLoop:
    job = MirrorJob(ZoneAddress(str(zone.root)), MirrorTarget(str(zone.target)), MirrorLimits())
    return MirrorLoop(spark, job, held, threading.Event(), **options)


@contextmanager
def running(spark: SparkSession, zone: Zone) -> Iterator[MirrorLoop]:
    """Run the loop in a thread until the block ends."""
    with exclusive_target(str(zone.target), {}) as held:
        loop = loop_over(spark, zone, held)
        thread = threading.Thread(target=loop.run, args=(0.05,))
        thread.start()
        try:
            yield loop
        finally:
            loop.stopping.set()
            thread.join()


def once(spark: SparkSession, zone: Zone, **options: frozenset[str]) -> dict[str, TableReport]:
    with exclusive_target(str(zone.target), {}) as held:
        loop = loop_over(spark, zone, held, **options)
        loop.run_once(lambda: None)
        return reports(loop)


def reports(loop: MirrorLoop) -> dict[str, TableReport]:
    return {report.table: report for report in loop.states.reports()}


def is_applied(loop: MirrorLoop, table: str, number: int) -> Callable[[], bool]:
    return lambda: table in reports(loop) and reports(loop)[table].file_number == number


def test_tables_are_applied_in_several_rounds_while_they_are_behind(spark: SparkSession, zone: Zone) -> None:
    files = MirrorLimits().max_files + 5
    for number in range(1, files + 1):
        zone.land("long", number, [(number, "row", 0)])
    for table in range(30):
        zone.land(f"short.t{table}", 1, [(1, "row", 0)])
    found = once(spark, zone)
    assert {report.state for report in found.values()} == {MirrorState.IN_STEP}
    assert zone.history("long") == [f"1-{files - 5}", f"{files - 4}-{files}"]
    assert len(found) == 31


def test_only_the_named_tables_are_applied(spark: SparkSession, zone: Zone) -> None:
    for table in ("sales.orders", "orders"):
        zone.land(table, 1, [(1, "row", 0)])
    assert {*once(spark, zone, only=frozenset({"sales.orders"}))} == {"sales.orders"}
    assert zone.version("orders") == -1


def test_a_stopped_table_is_repaired_and_continues_and_stops_no_other(spark: SparkSession, zone: Zone) -> None:
    zone.land("good", 1, [(1, "row", 0)])
    broken = zone.land("broken", 1, [(1, "row", 0)])
    content = broken.read_bytes()
    broken.write_bytes(b"")
    with running(spark, zone) as loop:
        wait_until(is_applied(loop, "good", 1), within=60, what="the good table is applied")
        wait_until(lambda: "broken" in reports(loop), within=60, what="the other table stops")
        report = reports(loop)["broken"]
        assert (report.state, report.file_number) == (MirrorState.STOPPED, 0)
        assert report.detail
        assert report.remedy
        zone.land("good", 2, [(2, "row", 0)])
        wait_until(is_applied(loop, "good", 2), within=60, what="the good table is applied again")
        broken.write_bytes(content)
        wait_until(is_applied(loop, "broken", 1), within=90, what="the repaired table is applied")
        assert reports(loop)["broken"].code is None


def test_a_zone_that_vanishes_is_waited_for_and_nothing_is_lost(spark: SparkSession, zone: Zone) -> None:
    away = zone.root.with_name("unmounted")
    zone.land("table", 1, [(1, "row", 0)])
    with running(spark, zone) as loop:
        wait_until(is_applied(loop, "table", 1), within=60, what="the table is applied")
        zone.root.rename(away)
        wait_until(lambda: loop.waits_for is Code.LANDING_ZONE_AWAY, within=60, what="the loss is seen")
        away.rename(zone.root)
        zone.land("table", 2, [(2, "row", 0)])
        wait_until(is_applied(loop, "table", 2), within=60, what="the mirror continues")
        assert loop.waits_for is None
    assert zone.history("table") == ["1-1", "2-2"]


def test_a_target_that_vanishes_is_waited_for_and_no_table_begins_again(spark: SparkSession, zone: Zone) -> None:
    away = zone.target.with_name("unmounted")
    zone.land("table", 1, [(1, "row", 0)])
    with running(spark, zone) as loop:
        wait_until(is_applied(loop, "table", 1), within=60, what="the table is applied")
        zone.target.rename(away)
        zone.target.mkdir()  # what an unmounted folder looks like
        zone.land("table", 2, [(2, "row", 0)])
        wait_until(lambda: loop.waits_for is Code.MIRROR_AWAY, within=60, what="the loss is seen")
        zone.target.rmdir()
        away.rename(zone.target)
        wait_until(is_applied(loop, "table", 2), within=60, what="the mirror continues")
    assert zone.history("table") == ["1-1", "2-2"]


def test_pyspark_takes_a_mirrored_table_over_arrow(tmp_path: Path, spark: SparkSession) -> None:
    mirrored = MirroredTable(tmp_path, "sales.schema/Order Lines", seed=3)
    frame = spark.createDataFrame(DeltaTable(mirrored.uri).to_pyarrow_table())
    assert frame.count() == mirrored.model.row_count
    mirrored.compare(frame.toArrow())
