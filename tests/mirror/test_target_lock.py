"""One mirror per folder, and a target that has to be there."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.mirror.target_lock import LOCK_FILE, exclusive_target
from mirrorgate.errors import Code, Misconfigured, TemporarilyUnavailable
from tests.support.processes import REPOSITORY

HOLD = (
    "import sys, threading\n"
    "from app.mirror.target_lock import exclusive_target\n"
    "with exclusive_target(sys.argv[1], {}):\n"
    "    print('held', flush=True)\n"
    "    threading.Event().wait()\n"
)


@contextmanager
def another_mirror(target: Path) -> Iterator["subprocess.Popen[str]"]:
    """Hold the target in another process."""
    command = [sys.executable, "-c", HOLD, str(target)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_mirror_is_rejected_with_the_pid_and_host_of_the_first(tmp_path: Path) -> None:
    with another_mirror(tmp_path) as other, pytest.raises(Misconfigured) as rejected:  # noqa: SIM117
        with exclusive_target(str(tmp_path), {}):
            pass
    assert rejected.value.code is Code.MIRROR_RUNNING
    assert f"pid {other.pid} on {socket.gethostname()}" in rejected.value.detail


def test_a_killed_mirror_leaves_its_folder_free(tmp_path: Path) -> None:
    with another_mirror(tmp_path) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
    with exclusive_target(str(tmp_path), {}) as held:
        held.check()


def test_a_restarted_mirror_waits_for_one_that_is_about_to_end(tmp_path: Path) -> None:
    with another_mirror(tmp_path) as other:
        threading.Timer(0.3, other.kill).start()
        with exclusive_target(str(tmp_path), {}, wait_seconds=30):
            assert str(os.getpid()) in (tmp_path / LOCK_FILE).read_text()


@pytest.mark.parametrize("loss", ["gone", "empty"])
def test_a_target_whose_mount_is_lost_is_away_until_it_is_back(tmp_path: Path, loss: str) -> None:
    target = tmp_path / "mirror"
    with exclusive_target(str(target), {}) as held:
        target.rename(tmp_path / "unmounted")
        if loss == "empty":
            target.mkdir()
        with pytest.raises(TemporarilyUnavailable, match=Code.MIRROR_AWAY):
            held.check()
        if loss == "empty":
            target.rmdir()
        (tmp_path / "unmounted").rename(target)
        held.check()


def test_a_target_that_cannot_be_a_folder_is_a_setting_to_correct(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured, match=Code.BAD_SETTING), exclusive_target(str(tmp_path / "file"), {}):
        pass
