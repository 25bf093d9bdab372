"""deltalake in Spark's Python workers: its threads start with its first call, which must be behind the fork."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.local.embedded import find_java
from tests.support.processes import REPOSITORY

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")

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
