"""Shortages that would fail silently are logged before requests fail; a severe one rejects the start."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app.domain.preflight import (
    Outcome,
    bytes_text,
    judge_descriptor_limit,
    judge_descriptors,
    judge_memory,
    judge_space,
)
from app.observability.resource_watch import ResourceWatch, memory_limit, open_descriptors
from app.settings import Settings
from app.settings.start_checks import check_memory, check_space
from mirrorgate.errors import Code, Misconfigured
from tests.support.http.server import free_port
from tests.support.processes import REPOSITORY, environment_with, succeeded
from tests.support.waiting import wait_until

MIB = 2**20

RUNS_OUT = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 1200))
from app.observability.resource_watch import ResourceWatch, raise_descriptor_limit
print(raise_descriptor_limit())
watch = ResourceWatch()
watch.check()
opened = []
try:
    while True:
        opened.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    watch.check()
for descriptor in opened:
    os.close(descriptor)
watch.check()
"""


def test_a_process_raises_its_descriptor_limit_and_says_when_descriptors_run_out_and_are_back() -> None:
    first, *lines = succeeded(sys.executable, "-c", RUNS_OUT).splitlines()
    assert first == "1200"
    assert ["resource_low" in line or "resource_recovered" in line for line in lines] == [True, True]
    assert "1200 of 1200 file descriptors are open" in lines[0]
    assert "ulimit -n" in lines[0]


def test_descriptors_are_judged_by_limit_and_use() -> None:
    assert judge_descriptor_limit(256).outcome is Outcome.WARNING
    assert judge_descriptor_limit(1024).outcome is Outcome.OK
    assert judge_descriptors(900, 1024).outcome is Outcome.WARNING
    assert judge_descriptors(10, 256).outcome is Outcome.OK
    assert open_descriptors(1024) > 2


@pytest.mark.slow
def test_an_api_out_of_descriptors_says_so_although_the_system_resets_connections_silently(
    database_url: str,
) -> None:
    program = (
        "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200));"
        "os.execv(sys.executable, [sys.executable, '-m', 'app.main'])"
    )
    port = free_port()
    environment = environment_with(DATABASE_URL=database_url, PORT=port)
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        callers: list[socket.socket] = []

        def serves() -> bool:
            try:
                callers.append(socket.create_connection(("127.0.0.1", port), timeout=5))
            except OSError:
                return False
            return True

        try:
            wait_until(serves, within=60, what="the API listens")
            for _ in range(250):
                serves()
            assert process.stderr is not None
            lines = (json.loads(line) for line in process.stderr)
            short = next(line for line in lines if line.get("check") == "descriptors")
        finally:
            for caller in callers:
                caller.close()
            process.kill()
    assert short["event"] == "resource_low"
    assert "new connections are reset" in short["detail"]


def test_space_that_is_short_is_said_once_a_minute_in_mebibytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, free = [0.0], [14 * MIB]
    disk = type("Disk", (), {"total": 100 * 2**30, "free": property(lambda _: free[0])})()
    monkeypatch.setattr("app.observability.resource_watch.shutil.disk_usage", lambda _: disk)
    watch = ResourceWatch({"zone_space": tmp_path}, min_free=2**30, clock=lambda: now[0])
    with capture_logs() as logs:
        for _ in range(25):
            watch.check()
            now[0] += 5
        free[0] = 20 * 2**30
        watch.check()
    told = [line for line in logs if line["check"] == "zone_space"]
    assert [line["event"] for line in told] == ["resource_low"] * 3 + ["resource_recovered"]
    assert told[0]["detail"] == f"14 MiB are free in {tmp_path}"
    assert told[-1]["detail"] == f"20.0 GiB are free in {tmp_path}"


def test_up_rejects_a_disk_that_is_nearly_full_unless_the_setting_allows_it(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there yet"
    with pytest.raises(Misconfigured, match=Code.UNSAFE_SETUP) as rejected:
        check_space([folder], 2**60)
    assert str(folder) in rejected.value.detail
    assert "MIRRORGATE_MIN_FREE_BYTES" in rejected.value.remedy
    check_space([folder], 0)


def test_too_little_memory_is_said_with_the_settings_to_lower_and_rejected_where_one_body_ends_it() -> None:
    settings = Settings(max_body_bytes=64 * MIB)
    assert judge_memory(None, 256 * MIB, 64 * MIB).outcome is Outcome.OK
    assert check_memory(settings, 4 * 2**30).outcome is Outcome.OK
    found = check_memory(settings, 1_200 * MIB)
    assert found.outcome is Outcome.WARNING
    assert "1,200 MiB" in found.detail
    assert "MIRRORGATE_MAX_BYTES_IN_MEMORY" in str(found.remedy)
    with pytest.raises(Misconfigured):
        check_memory(settings, 300 * MIB)
    assert check_memory(settings.model_copy(update={"allow_unsafe": True}), 300 * MIB).outcome is Outcome.UNSAFE


def test_the_memory_limit_is_the_smallest_that_holds() -> None:
    program = (
        f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({1_500 * MIB}, {1_500 * MIB}));"
        "from app.observability.resource_watch import memory_limit; print(memory_limit())"
    )
    assert int(succeeded(sys.executable, "-c", program)) == min(1_500 * MIB, memory_limit() or sys.maxsize)


def test_little_space_is_written_in_mebibytes() -> None:
    assert bytes_text(14 * MIB) == "14 MiB"
    assert judge_space("space", "/x", 0, min_free=1).outcome is Outcome.WARNING
