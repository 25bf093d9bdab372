"""The mirror under a standalone Spark master with two workers in separate processes, one of which is lost."""

from pathlib import Path

import pytest

from benchmarks.machine.standalone_cluster import standalone_cluster
from tests.spark.mirror.mirrors import Zone, events, running_mirror
from tests.support.waiting import wait_until


@pytest.mark.thorough
def test_every_file_is_applied_once_although_one_of_two_workers_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone, log, tables = Zone(tmp_path), tmp_path / "mirror.log", [f"t{number}" for number in range(6)]
    for table in tables:
        zone.land(table, 1, [(1, "row", 0)])
    with standalone_cluster(tmp_path / "cluster", workers=2) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        with running_mirror(zone, log, SPARK_MASTER=cluster.url) as mirror:
            wait_until(lambda: all(zone.version(table) == 0 for table in tables), within=90, what="file 1 is applied")
            cluster.workers[0].kill()
            for number in range(2, 7):
                for table in tables:
                    zone.land(table, number, [(number, "row", 0)])
            expected = [(number, "row") for number in range(1, 7)]
            wait_until(lambda: all(zone.rows(table) == expected for table in tables), within=90, what="all is applied")
            mirror.terminate()
            assert mirror.wait(20) == 0
    [warning] = [event for event in events(log) if event["event"] == "folders_of_executors"]
    assert warning["folders"] == [str(zone.root), str(zone.target)]
