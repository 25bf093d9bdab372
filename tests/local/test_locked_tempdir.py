"""Temporary folders are private and are removed with their process, never while it runs."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.local import locked_tempdir as module
from app.local.locked_tempdir import locked_tempdir
from tests.support.processes import REPOSITORY

HOLDS = """
import sys
from app.local.locked_tempdir import locked_tempdir
with locked_tempdir("test") as folder:
    (folder / "file").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the system's temporary folder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@contextmanager
def held_by_another() -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """Give a process that holds a folder until its standard input ends."""
    command = [sys.executable, "-c", HOLDS]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_a_folder_is_private_whatever_the_umask_and_is_gone_after_the_block() -> None:
    umask = os.umask(0)
    try:
        with locked_tempdir("test") as folder:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            (folder / "file").touch()
    finally:
        os.umask(umask)
    assert not folder.exists()


def test_a_folder_that_is_gone_already_is_no_failure() -> None:
    with locked_tempdir("test") as folder:
        shutil.rmtree(folder)


def test_what_a_killed_process_left_goes_and_what_a_living_one_holds_stays() -> None:
    with held_by_another() as (_, living), held_by_another() as (killed, dead):
        killed.kill()
        killed.wait()
        assert (dead / "file").exists()
        with locked_tempdir("other"):
            assert dead.exists()
        with locked_tempdir("test") as own:
            assert (living / "file").exists()
            assert own.exists()
            assert not dead.exists()
            with locked_tempdir("test") as second:
                assert own.exists()
                assert second != own


def test_a_child_that_outlives_its_process_does_not_keep_the_folder() -> None:
    program = HOLDS.replace(
        "    sys.stdin.read()",
        "    import os, subprocess; subprocess.Popen(['sleep', '15'], stdout=subprocess.DEVNULL); os._exit(1)",
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    dead = Path(ran.stdout.strip())
    assert dead.exists()
    with locked_tempdir("test"):
        assert not dead.exists()


def test_a_folder_that_is_swept_before_it_is_held_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    make, made = tempfile.mkdtemp, list[Path]()

    def swept_at_once(*, prefix: str, dir: Path) -> str:
        made.append(Path(make(prefix=prefix, dir=dir)))
        if len(made) == 1:
            made[0].rmdir()
        return str(made[-1])

    monkeypatch.setattr(module.tempfile, "mkdtemp", swept_at_once)
    with locked_tempdir("test") as folder:
        assert folder == made[1]


def test_links_and_files_under_such_a_name_are_left_alone(parent: Path) -> None:
    elsewhere = parent / "elsewhere"
    elsewhere.mkdir()
    link, file = parent / "mirrorgate-locked-test-a", parent / "mirrorgate-locked-test-b"
    link.symlink_to(elsewhere)
    file.touch()
    with locked_tempdir("test"):
        pass
    assert link.is_symlink()
    assert file.exists()
    assert elsewhere.exists()


def test_a_path_that_would_be_too_long_is_made_below_tmp(parent: Path) -> None:
    with locked_tempdir("test") as folder:
        assert folder.parent == parent
        length = len(bytes(folder))
    with locked_tempdir("test", max_path_bytes=length) as folder:
        assert folder.parent == parent
    with locked_tempdir("test", max_path_bytes=length - 1) as folder:
        assert folder.parent == Path("/tmp")
