"""The mirror process with Spark and a bucket: its rows, no secret in process lists and logs, clear failures."""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.mirror.object_store.conftest import S3
from tests.spark.mirror.mirrors import Zone, mirror_environment
from tests.support.processes import REPOSITORY

SECRET = "secret-of-the-process-list"


def run_mirror(zone: Zone, location: str, options: Mapping[str, str]) -> tuple[int, str, set[str]]:
    """Run `mirror run --once`; return its status, its output, and each command line of it and its children."""
    command = [sys.executable, "-m", "mirrorgate.cli", "mirror", "run", "--once", str(zone.root), "--to", location]
    command += [part for pair in options.items() for part in ("--storage-option", "=".join(pair))]
    seen: set[str] = set()
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=mirror_environment(zone, LOG_LEVEL="debug"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        over = threading.Event()
        watching = threading.Thread(target=lambda: watch(process.pid, seen, over))
        watching.start()
        output, _ = process.communicate(timeout=150)
        over.set()
        watching.join()
    return process.returncode, output, seen


def watch(session: int, seen: set[str], over: threading.Event) -> None:
    """Collect the command lines of a session's processes until it is over."""
    while not over.wait(0.1):
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if os.getsid(int(folder.name)) == session:
                    seen.add((folder / "cmdline").read_text())
            except OSError:
                continue


@pytest.mark.spark
@pytest.mark.thorough
def test_a_process_mirrors_to_a_bucket_and_shows_no_secret(s3: S3, tmp_path: Path) -> None:
    zone, target = Zone(tmp_path), s3.target("/my mirror")
    zone.land("sales.orders", 1, [(1, "a", 0), (2, "b", 0)])
    zone.land("sales.orders", 2, [(1, "A", 1), (2, "", 2)])
    zone.land("größe", 1, [(7, "x", 4)])
    status, output, seen = run_mirror(zone, target.location, s3.options | {"aws_secret_access_key": SECRET})
    assert status == 0, output
    assert "2 tables, 0 not in step; applied 3 files with 5 rows" in output
    opened = target.open("sales.orders")
    assert opened is not None
    assert opened.to_pyarrow_table().select(["id", "note"]).to_pylist() == [{"id": 1, "note": "A"}]
    assert target.tables() == ["größe", "sales.orders"]
    assert SECRET not in output
    children = [line for line in seen if "mirrorgate.cli" not in line]
    assert any("spark_jobs.mirror\x00" in line for line in children)
    assert any("java" in line for line in children)
    assert not any(SECRET in line for line in children)


def test_a_process_that_cannot_use_its_target_says_why_and_ends(s3: S3, tmp_path: Path) -> None:
    zone = Zone(tmp_path)
    zone.land("orders", 1, [(1, "a", 0)])
    status, output, _ = run_mirror(zone, "s3://nowhere/x", s3.options)
    assert status == 78, output
    assert "NoSuchBucket" in output
    assert "Traceback" not in output
    assert s3.options["aws_secret_access_key"] not in output
