"""One mirror per target: a file lock for a folder, a lease in the target itself for an object store."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from app.errors import Code, Misconfigured, TemporarilyUnavailable
from app.mirror.target_lock import exclusive_target
from app.mirror.target_lock.exclusive import RenewedLease
from app.mirror.target_lock.folder_lock import LOCK_FILE
from app.mirror.target_lock.lease import LEASE_TABLE, TargetLease
from tests.mirror.lease_races import race
from tests.support.processes import REPOSITORY
from tests.support.waiting import wait_until

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
        with pytest.raises(TemporarilyUnavailable) as away:
            held.check()
        assert away.value.code is Code.MIRROR_AWAY
        if loss == "empty":
            target.rmdir()
        (tmp_path / "unmounted").rename(target)
        held.check()


def test_a_target_that_cannot_be_a_folder_is_a_setting_to_correct(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured) as rejected, exclusive_target(str(tmp_path / "file"), {}):
        pass
    assert rejected.value.code is Code.BAD_SETTING


def lease(target: Path, seconds: float = 60.0) -> TargetLease:
    return TargetLease(target.as_uri(), {}, lease_seconds=seconds)


def test_a_lease_is_renewed_by_its_owner_and_rejects_others_until_it_is_given_up(tmp_path: Path) -> None:
    first, second = lease(tmp_path), lease(tmp_path)
    first.acquire()
    first.acquire()
    with pytest.raises(Misconfigured) as rejected:
        second.acquire()
    assert rejected.value.code is Code.MIRROR_RUNNING
    assert f"pid {os.getpid()} on {socket.gethostname()}" in rejected.value.detail
    second.release()
    with pytest.raises(Misconfigured):
        second.acquire()
    first.release()
    second.acquire()


def test_an_ended_lease_is_taken_over_and_its_owner_notices(tmp_path: Path) -> None:
    first, second = lease(tmp_path, seconds=0.0), lease(tmp_path)
    first.acquire()
    second.acquire()
    renewed = RenewedLease(first, pause_seconds=0.0)
    renewed.check()
    renewed.keep(threading.Event())
    with pytest.raises(Misconfigured):
        renewed.check()


def test_a_creation_of_the_table_that_is_committed_late_does_not_free_the_lease(tmp_path: Path) -> None:
    lease(tmp_path).acquire()
    table = DeltaTable(str(tmp_path / LEASE_TABLE))
    write_deltalake(table, pa.schema([("owner", pa.string())]).empty_table(), mode="append")
    with pytest.raises(Misconfigured) as rejection:
        lease(tmp_path).acquire()
    assert rejection.value.code is Code.MIRROR_RUNNING


def test_of_many_that_take_a_free_lease_at_the_same_time_one_has_it(tmp_path: Path) -> None:
    outcomes = race(lambda: lease(tmp_path), 8)
    assert (outcomes.count(None), outcomes.count(Code.MIRROR_RUNNING)) == (1, 7)


def test_a_block_renews_its_lease_and_gives_it_up(tmp_path: Path) -> None:
    with exclusive_target(tmp_path.as_uri(), {}) as held:
        held.check()
        with pytest.raises(Misconfigured):
            lease(tmp_path).acquire()
    lease(tmp_path).acquire()
    assert not [file for file in (tmp_path / LEASE_TABLE).iterdir() if file.suffix == ".parquet"]


def test_a_store_that_is_away_is_asked_again(tmp_path: Path) -> None:
    target = tmp_path / "mirror"
    taker = lease(target)
    taker.acquire()
    target.rename(tmp_path / "unmounted")
    target.touch()
    with pytest.raises(TemporarilyUnavailable) as away:
        taker.acquire()
    assert away.value.code is Code.MIRROR_AWAY
    target.unlink()
    (tmp_path / "unmounted").rename(target)
    over = threading.Event()
    renewing = threading.Thread(target=RenewedLease(taker, pause_seconds=0.01).keep, args=(over,))
    log = target / LEASE_TABLE / "_delta_log"
    before = len([*log.iterdir()])
    renewing.start()
    wait_until(lambda: len([*log.iterdir()]) > before, within=60, what="the lease is renewed")
    over.set()
    renewing.join()
