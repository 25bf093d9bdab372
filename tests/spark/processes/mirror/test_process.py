"""The mirror as users run it: once over a zone of another publisher, and continuously, killed and started again."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from app.local.embedded import find_java, running_url
from app.staging.connection.database import open_engine
from benchmarks.machine.standalone_cluster import standalone_cluster
from demo.gateway import admin_key
from demo.mirror_reader import Rows, applied_file, fold, mirrored_rows, open_mirrored
from demo.workload import Post, Row, stream_tables
from mirrorgate.http import GatewayClient
from tests.spark.mirror.mirrors import Zone, events, kill_all, run_once, running_mirror
from tests.support.expositions import check_recorded
from tests.support.postgres import sql
from tests.support.processes import REPOSITORY, is_alive
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def zone(tmp_path: Path) -> Zone:
    return Zone(tmp_path)


@pytest.mark.thorough
def test_once_applies_what_it_can_without_postgres_and_says_what_to_do_about_the_rest(zone: Zone) -> None:
    for table in ("plain", "sales.orders", "gap", "broken", "typed"):
        zone.land(table, 1, [(1, "first", 0), (2, "second", 0)])
    zone.land("sales.orders", 2, [(1, "changed", 1), (2, "", 2), (3, "third", 4)])
    zone.land("gap", 3, [(3, "late", 0)])
    broken = zone.land("broken", 2, [(1, "changed", 1)])
    repaired = broken.read_bytes()
    broken.write_bytes(repaired[: len(repaired) // 2])
    zone.land("typed", 2, pa.table({"id": ["3"], "note": ["third"], "__rowMarker__": pa.array([0], pa.int32())}))

    first = run_once(zone)
    assert first.returncode == 1, first.stderr
    lines = first.stderr.splitlines()
    assert any(line.startswith("5 tables, 3 not in step; applied 6 files with 13 rows") for line in lines), lines
    assert any(line.startswith("gap: waiting: landing_file_gap: table gap waits for file 2") for line in lines)
    assert any(line.startswith("broken: stopped: ") for line in lines)
    assert any(line.startswith("typed: stopped: ") and "SchemaMergeFailure" in line for line in lines)
    assert sum(line.startswith("  remedy: ") for line in lines) == 3
    assert "Traceback" not in first.stderr
    assert zone.rows("sales.orders") == [(1, "changed"), (3, "third")]
    assert zone.rows("gap") == [(1, "first"), (2, "second")]

    zone.land("gap", 2, [(2, "second too", 0)])
    broken.write_bytes(repaired)
    second = run_once(zone, "--table", "GAP", "--table", "broken", "--table", "sales.orders")
    assert second.returncode == 0, second.stderr
    assert zone.rows("gap") == [(1, "first"), (2, "second"), (2, "second too"), (3, "late")]
    assert zone.rows("broken") == [(1, "changed"), (2, "second")]
    assert zone.history("sales.orders") == ["1-2"]


@pytest.mark.thorough
def test_a_mirror_follows_a_zone_in_one_version_per_file_and_stops_cleanly(zone: Zone, tmp_path: Path) -> None:
    log = tmp_path / "mirror.log"
    zone.land("followed", 1, [(1, "first", 0)])
    with running_mirror(zone, log, MIRROR_METRICS_PORT=0) as mirror:
        wait_until(lambda: zone.version("followed") == 0, within=120, what="the first file is applied")
        delays = []
        for number in range(2, 8):
            landed_at = time.monotonic()
            zone.land("followed", number, [(number, "next", 0)])
            wait_until(lambda: zone.version("followed") == number - 1, within=60, what=f"file {number} is applied")  # noqa: B023
            delays.append(time.monotonic() - landed_at)
        assert zone.history("followed") == [f"{number}-{number}" for number in range(1, 8)]
        assert sorted(delays)[len(delays) // 2] < 2.0, delays

        rejected = run_once(zone)
        assert rejected.returncode == 78
        assert f"pid {mirror.pid} on {socket.gethostname()}" in rejected.stderr
        assert "remedy: Stop the process" in rejected.stderr

        [started] = [event for event in events(log) if event["event"] == "mirror_started"]

        def served() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{started['metrics_port']}/metrics", timeout=20) as answer:
                return str(answer.read().decode())

        metrics = served()
        assert "mirrorgate_mirror_files_total 7.0" in metrics
        assert 'mirrorgate_mirror_tables{state="in_step"} 1.0' in metrics
        assert 'mirrorgate_mirror_oldest_pending_seconds{state="behind"} 0.0' in metrics
        assert "mirrorgate_mirror_spark_up 1.0" in metrics

        zone.root.rename(zone.root.with_name("away"))
        wait_until(lambda: "mirrorgate_mirror_waiting 1.0" in served(), within=30, what="the zone is missed")
        check_recorded("mirror", metrics, {"away": served()})
        zone.root.with_name("away").rename(zone.root)
        wait_until(lambda: "mirrorgate_mirror_waiting 0.0" in served(), within=30, what="the zone is back")

        mirror.send_signal(signal.SIGTERM)
        assert mirror.wait(20) == 0, log.read_text()
    assert events(log)[-1]["event"] == "mirror_stopped"


@pytest.mark.thorough
def test_a_killed_mirror_neither_repeats_nor_skips_a_file(zone: Zone, tmp_path: Path) -> None:
    """Every file appends one row per table, so a repeated or a skipped file shows."""
    tables = ("a", "b", "c")
    last, over = dict.fromkeys(tables, 0), threading.Event()

    def publish() -> None:
        for number in count(1):
            for table in tables:
                zone.land(table, number, [(number, table, 0)])
                last[table] = number
            if over.wait(0.03):
                return

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        for attempt in range(3):
            before = zone.version("b")
            with running_mirror(zone, tmp_path / "mirror.log") as mirror:
                wait_until(lambda: zone.version("b") >= before + 4, within=120, what="the mirror commits")  # noqa: B023
                if attempt % 2:
                    os.kill(mirror.pid, signal.SIGKILL)  # its JVM and workers notice it themselves
                    mirror.wait()
                else:
                    kill_all(mirror)
    finally:
        over.set()
        publisher.join()
    finished = run_once(zone)
    assert finished.returncode == 0, finished.stderr
    for table in tables:
        assert zone.rows(table) == [(number, table) for number in range(1, last[table] + 1)]
        bounds = [tuple(map(int, files.split("-"))) for files in zone.history(table)]
        assert [first for first, _ in bounds] == [1, *(applied + 1 for _, applied in bounds[:-1])]


@pytest.mark.thorough
def test_ctrl_c_ends_a_single_run_without_a_traceback_and_the_next_one_continues(zone: Zone, tmp_path: Path) -> None:
    for table in range(300):  # more than one job of a second applies
        zone.land(f"t{table}", 1, [(1, "row", 0)])
    log = tmp_path / "mirror.log"
    with running_mirror(zone, log, "--once") as mirror:
        wait_until(lambda: [*zone.target.glob("t*")], within=120, what="tables are applied")
        mirror.send_signal(signal.SIGINT)
        assert mirror.wait(20) == 130, log.read_text()
    assert "Traceback" not in log.read_text()
    assert "the next run continues there" in log.read_text()
    assert run_once(zone).returncode == 0
    assert all(zone.rows(f"t{table}") == [(1, "row")] for table in range(300))


def test_a_target_inside_the_zone_is_rejected(zone: Zone) -> None:
    zone.target = zone.root / "mirror"
    rejected = run_once(zone)
    assert rejected.returncode == 78
    assert "lie in each other" in rejected.stderr


def test_a_zone_that_does_not_exist_is_rejected(zone: Zone) -> None:
    zone.root.rmdir()
    rejected = run_once(zone)
    assert rejected.returncode == 78
    assert "does not exist" in rejected.stderr
    assert not zone.target.exists()


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


COUNT_THREADS = """
import json, os, sys
from pathlib import Path
from app.settings import Settings
from spark_jobs.spark.session import running_spark

def facts(numbers):
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake
    parent = Path(f"/proc/{os.getppid()}")
    threads, imported = len([*(parent / "task").iterdir()]), "spark_jobs.mirroring.task" in sys.modules
    for number in numbers:
        folder = f"{target}/{number}"
        write_deltalake(folder, pa.table({"id": [1, 2]}))
        merger = DeltaTable(folder).merge(pa.table({"id": [2]}), "t.id = s.id", source_alias="s", target_alias="t")
        merger.when_matched_delete().execute()
        yield (parent / "cmdline").read_text(), threads, imported, DeltaTable(folder).to_pyarrow_table().num_rows

target = sys.argv[1]
with running_spark(Settings(spark_master="local[2]"), "mirror") as spark:
    for offset in (0, 4):
        found = spark.sparkContext.parallelize(range(offset, offset + 4), 4).mapPartitions(facts).collect()
        print("found", json.dumps(found))
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
def test_workers_commit_to_delta_tables_as_forks_of_a_daemon_with_one_thread(tmp_path: Path) -> None:
    script = tmp_path / "count.py"
    script.write_text(COUNT_THREADS)
    java = find_java(Path(".mirrorgate"), os.environ)
    ran = subprocess.run(
        [sys.executable, script, tmp_path / "tables"],
        cwd=REPOSITORY,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"} | {"JAVA_HOME": str(java)},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert ran.returncode == 0, ran.stderr
    jobs = [line.removeprefix("found ") for line in ran.stdout.splitlines() if line.startswith("found ")]
    assert len(jobs) == 2
    for job in jobs:
        for command, threads, imported, rows in json.loads(job):
            assert "spark_jobs.spark.mirror_daemon" in command
            assert (threads, imported, rows) == (1, True, 1)


STORED = "SELECT max(file_number) FROM mirrorgate.mirror_reports"


@pytest.mark.timeout(900)
def test_posted_changes_are_mirrored_after_a_kill_and_everything_stops_together(tmp_path: Path) -> None:
    data_dir = tmp_path / "data dir"
    data_dir.mkdir()
    orders, posted = stream_tables()[1], list[Row]()
    command = [sys.executable, "-m", "mirrorgate.cli", "up", "--mirror", "--data-dir", str(data_dir), "--port", "0"]
    with (
        (tmp_path / "up.log").open("wb") as log,
        subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=log) as up,
    ):
        try:
            assert up.stdout is not None
            url = up.stdout.readline().decode().removeprefix("ready ").strip()
            started = json.loads((data_dir / "mirror.json").read_text())
            assert is_alive(started["pid"])
            assert started["target"] == str(data_dir / "mirror")
            with GatewayClient(url, admin_key(data_dir)) as client:
                columns = [
                    {"name": name, "type": declared, "nullable": name != "order_id"}
                    for name, declared in orders.columns.items()
                ]
                client.put(f"/v1/tables/{orders.name}", {"columns": columns, "key_columns": ["order_id"]})
                posted += post(client, orders.post(200))
                wait_until(lambda: mirrored_file(data_dir) >= 1, within=120, what="the first file is mirrored")
                os.kill(started["pid"], signal.SIGKILL)
                posted += post(client, orders.post(300))
                wait_until(lambda: rows(data_dir) == fold(posted), within=300, what="a new mirror continues")
            applied = mirrored_file(data_dir)
            wait_until(lambda: stored_file(data_dir) == applied, within=120, what="the database has the report")
        finally:
            up.send_signal(signal.SIGTERM)
            assert up.wait(60) == 0, (tmp_path / "up.log").read_text()
    assert rows(data_dir) == fold(posted)
    assert not is_alive(json.loads((data_dir / "mirror.json").read_text())["pid"])
    assert b"mirror_stopped" in (data_dir / "mirror.log").read_bytes()


def post(client: GatewayClient, changes: Post) -> list[Row]:
    client.post_changes(changes.source_format, changes.body)
    return changes.rows


def mirrored_file(data_dir: Path) -> int:
    return applied_file(open_mirrored(data_dir / "mirror", "shop.orders"))


def rows(data_dir: Path) -> Rows:
    mirrored = open_mirrored(data_dir / "mirror", "shop.orders")
    return {} if mirrored is None else mirrored_rows(mirrored)


def stored_file(data_dir: Path) -> object:
    url = running_url(data_dir)
    assert url is not None
    engine = open_engine(url)
    try:
        return sql.value(engine, STORED)
    finally:
        engine.dispose()
