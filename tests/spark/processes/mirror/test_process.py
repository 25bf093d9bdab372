"""The mirror as users run it: once over a zone of another publisher, and continuously, killed and started again."""

import os
import signal
import socket
import threading
import time
import urllib.request
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from tests.spark.mirror.mirrors import Zone, events, kill_all, run_once, running_mirror
from tests.support.expositions import check_recorded
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
