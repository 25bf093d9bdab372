"""The target: names of tables, and its lock."""

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
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from app.mirror.target import MirrorTarget, table_name, table_path
from app.mirror.target_lock import LOCK_FILE, exclusive_target
from app.published.table_files import PublishedTable
from mirrorgate.errors import Code, Misconfigured, TemporarilyUnavailable
from tests.support.processes import REPOSITORY

NAMES = st.text(st.characters(exclude_characters="/.\x00", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(st.none() | NAMES, NAMES)
def test_every_name_is_found_again(schema: str | None, name: str) -> None:
    table = PublishedTable(schema, name, "")
    assert table_name(table_path(table)) == str(table)


@pytest.mark.parametrize("name", ["orders", "my orders", "a@b", "Größe", "a;b,c=d", "x-y_z", "(1)", "a@g", "a&b+c"])
def test_common_names_are_folders_as_they_are(name: str) -> None:
    assert table_path(PublishedTable("Sales", name, "")) == f"Sales/{name}"


@pytest.mark.parametrize(
    "name", ["a#b", "a?b", "a[1]", "a^b", "a|b", "a%20b", "a\\b", "~", "t@g1", "a b", "😀", "a\tb"]
)
def test_a_table_of_any_name_keeps_its_history(tmp_path: Path, name: str) -> None:
    target = MirrorTarget(str(tmp_path))
    table = PublishedTable("s [x]", name, "")
    for _ in range(2):
        write_deltalake(target.uri(table), pa.table({"x": [1]}), mode="append")
    opened = target.open(str(table))
    assert opened is not None
    assert len(opened.history()) == 2
    assert opened.to_pyarrow_dataset().count_rows() == 2
    assert target.tables() == [str(table)]


def test_a_name_with_a_dot_is_found_with_and_without_a_schema(tmp_path: Path) -> None:
    target = MirrorTarget(str(tmp_path))
    assert target.open("a.b") is None
    write_deltalake(target.uri(PublishedTable(None, "a.b", "a.b")), pa.table({"x": [1]}))
    assert target.open("a.b") is not None


def test_kept_generations_are_numbered(tmp_path: Path) -> None:
    target = MirrorTarget(str(tmp_path))
    table = PublishedTable(None, "t[1]", "t[1]")
    for generation in (1, 3):
        write_deltalake(target.uri(table, generation=generation), pa.table({"x": [1]}))
    write_deltalake(target.uri(PublishedTable(None, "t[1]@g9", "")), pa.table({"x": [1]}))
    assert target.kept_generations(table) == [1, 3]
    assert target.open("t[1]@g3") is not None


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
    rejects = pytest.raises(Misconfigured)
    with another_mirror(tmp_path) as other, rejects as rejected, exclusive_target(str(tmp_path), {}):
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
