"""The whole gateway as users run it: real processes, real HTTP, real Spark, and processes that are killed."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from demo.gateway import admin_key, running_gateway
from mirrorgate.http import GatewayClient
from tests.end_to_end.reader import follow_the_readme, reading
from tests.support.documents import blocks, run_shell
from tests.support.gateway_parts import landed_keys
from tests.support.processes import REPOSITORY
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


def processes(data_dir: Path, module: str = "") -> list[int]:
    """Living processes of the gateway on this data directory, found by their command or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                command = (entry / "cmdline").read_bytes()
                ours = str(data_dir).encode() in command + (entry / "environ").read_bytes()
                if command and ours and module.encode() in command:
                    found.append(int(entry.name))
    return found


@contextmanager
def killer(data_dir: Path) -> Iterator[list[str]]:
    """Kill the API and the drain in turn, each as soon as it is up again, until the block ends."""
    killed: list[str] = []
    ended = threading.Event()

    def kill() -> None:
        before: set[int] = set()
        while not ended.wait(1.5):
            for module in ("app.main", "spark_jobs.drain"):
                for pid in set(processes(data_dir, module)) - before:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        before.add(pid)
                        killed.append(module)
            if killed.count("spark_jobs.drain") >= 2 and killed.count("app.main") >= 4:
                return

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()


@pytest.mark.thorough
def test_killing_the_api_and_the_drain_during_the_demo_only_delays_it(tmp_path: Path) -> None:
    data_dir = tmp_path / "data dir"
    command = [sys.executable, "-m", "demo", "--data-dir", str(data_dir), "--changes", "60000"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        wait_until(lambda: (data_dir / "gateway.json").exists(), within=60, what="the gateway starts its children")
        with killer(data_dir) as killed:
            output, _ = demo.communicate(timeout=280)
    assert demo.returncode == 0, output
    assert "Everything adds up" in output
    assert {"app.main", "spark_jobs.drain"} <= set(killed)
    wait_until(lambda: not processes(data_dir), within=30, what="no process of the gateway is left")


def test_the_readme_can_be_followed_and_its_gateway_carries_on_from_a_restored_copy_after_its_machine_went_down(
    tmp_path: Path,
) -> None:
    """Its files are for their owner alone, and every line of the drain, with what Spark prints, is one JSON object."""
    data_dir = tmp_path / ".mirrorgate"
    data_dir.mkdir()
    data_dir.chmod(0o755)
    with reading(tmp_path) as reader, GatewayClient(reader.url, admin_key(data_dir)) as client:
        follow_the_readme(reader)
        client.put("/v1/tables/t", {"key_columns": ["id"], "columns": [{"name": "id", "type": "int64"}]})
        said = (data_dir / "up.log").read_text()
        for pid in processes(data_dir, "spark_jobs.drain"):
            os.kill(pid, signal.SIGKILL)
        assert client.post_changes("arcion", arcion_insert(1))["receipts"][0]["sequence"] == 1
        for pid in processes(data_dir):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not processes(data_dir), within=30, what="no process of the gateway is left")
    back_up_and_restore(tmp_path)
    (data_dir / "drain.log").unlink()  # a killed process may have left half a line
    with running_gateway(data_dir) as url, GatewayClient(url, admin_key(data_dir)) as client:
        assert client.post_changes("arcion", arcion_insert(2))["receipts"][0]["sequence"] == 2
        published = lambda: client.get("/v1/tables/t")["published"]["rows"] == 2  # noqa: E731
        wait_until(published, within=60, what="both batches are published")
    assert [key for file in landed_keys(data_dir / "landing-zone", "t") for key in file] == [1, 2]
    assert "data_directory_open" in said
    assert data_dir.stat().st_mode & 0o777 == 0o700
    zone = [data_dir / "landing-zone", *(data_dir / "landing-zone").rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in zone if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in zone if path.is_file()} == {0o600}
    events = {json.loads(line)["event"] for line in (data_dir / "drain.log").read_text().splitlines()}
    assert {"drain_stopped", "spark_log"} <= events


def back_up_and_restore(folder: Path) -> None:
    """Run the commands of docs/operate/backup.md for the data directory of `up`, and damage it in between."""
    section = (
        (REPOSITORY / "docs" / "operate" / "backup.md")
        .read_text(encoding="utf-8")
        .partition("### The data directory")[2]
    )
    copy, restore, *_ = blocks(section, "sh")
    damage = "rm -r .mirrorgate/postgres\n"
    script = copy + damage + restore.removesuffix("make up\n")
    run_shell(script, folder, BACKUP=str(folder / "backup"))


def arcion_insert(key: int) -> bytes:
    return (
        b'{"tableName":{"name":"t"},"opType":"I","before":{"id":"null"},"after":{"id":"%d"},"exists":{"id":"1"}}' % key
    )
