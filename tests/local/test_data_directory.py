"""One gateway per data directory."""

import os
from pathlib import Path

import pytest

from app.local.data_directory import DataDirectory
from mirrorgate.errors import Code, Misconfigured
from tests.support.processes import read_line, started


def test_it_is_made_private_with_its_parents(tmp_path: Path) -> None:
    with DataDirectory(tmp_path / "a" / "b") as directory:
        assert directory.path == tmp_path / "a" / "b"
        assert directory.path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o755, 0o2770, 0o701])
def test_one_that_others_may_enter_is_closed_to_them_and_says_so(tmp_path: Path, mode: int) -> None:
    (tmp_path / "up.log").touch()
    tmp_path.chmod(mode)
    with DataDirectory(tmp_path) as directory:
        found = directory.close_to_others()
    assert found == f"other accounts could enter the data directory {tmp_path} (mode {mode:04o}), and no longer can"
    assert tmp_path.stat().st_mode & 0o7777 == mode & 0o7700
    with DataDirectory(tmp_path) as directory:
        assert directory.close_to_others() is None


def test_a_folder_of_other_programs_keeps_its_mode_until_a_gateway_has_used_it(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    tmp_path.chmod(0o755)
    for is_used in (False, True):
        with DataDirectory(tmp_path) as directory:
            found = directory.close_to_others()
        assert found is not None
        assert ("folders that are not a gateway's" in found) is not is_used
        assert (tmp_path.stat().st_mode & 0o077 == 0) is is_used


def test_a_second_holder_is_rejected_and_told_where_and_whom(tmp_path: Path) -> None:
    with DataDirectory(tmp_path), pytest.raises(Misconfigured) as rejection, DataDirectory(tmp_path):
        pass
    assert rejection.value.code == Code.ALREADY_RUNNING
    assert str(tmp_path) in rejection.value.detail
    assert str(os.getpid()) in rejection.value.detail


def test_the_death_of_the_holder_gives_it_back(tmp_path: Path) -> None:
    with started("tests.local.holds_data_directory", tmp_path) as holder:
        pid = read_line(holder)
        with pytest.raises(Misconfigured, match=f"pid {pid} "), DataDirectory(tmp_path):
            pass
        holder.kill()
        holder.wait(timeout=30)
        with DataDirectory(tmp_path):
            pass


def test_a_path_that_cannot_be_a_directory_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match=Code.BAD_SETTING), DataDirectory(tmp_path / "file" / "data"):
        pass
