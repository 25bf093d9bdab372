"""The account that runs Postgres, and the error when root cannot provide one."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from app.local.embedded import postgres as postgres_account
from app.local.embedded.postgres import choose_account
from mirrorgate.errors import Code, Misconfigured
from tests.support.processes import succeeded

ALL = (1 << 41) - 1
DOCKER = sum(1 << number for number in (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31))
DAC_OVERRIDE, SETUID = 1, 7


def bounded_by(monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(postgres_account, "_capabilities", lambda: held)
    monkeypatch.setattr(postgres_account, "_usable_setpriv", lambda: "/usr/bin/setpriv")


@pytest.mark.parametrize(
    ("held", "given"), [(ALL, "dac_read_search"), (DOCKER, "dac_override")], ids=["on a machine", "in a container"]
)
def test_root_gives_the_narrowest_capability_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int, given: str
) -> None:
    bounded_by(monkeypatch, held)
    assert f"--ambient-caps=-all,+{given}" in choose_account(tmp_path / "postgres").prefix


def test_root_without_any_capability_for_it_is_told_which_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounded_by(monkeypatch, DOCKER & ~(1 << DAC_OVERRIDE) & ~(1 << SETUID))
    with pytest.raises(Misconfigured, match=Code.POSTGRES_FAILED) as rejection:
        choose_account(tmp_path / "postgres")
    assert rejection.value.detail.endswith(": setuid, dac_read_search or dac_override")
    assert "MIRRORGATE_DATABASE_URL" in rejection.value.remedy


def test_root_without_setpriv_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bounded_by(monkeypatch, ALL)
    monkeypatch.setattr(postgres_account, "_usable_setpriv", lambda: None)
    with pytest.raises(Misconfigured, match=Code.POSTGRES_FAILED) as rejection:
        choose_account(tmp_path / "postgres")
    assert "setpriv" in rejection.value.detail
    assert "ordinary user" in rejection.value.remedy


def test_an_ordinary_user_without_setpriv_still_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(postgres_account, "_usable_setpriv", lambda: None)
    account = choose_account(tmp_path / "postgres")
    assert account.prefix == ()
    assert account.owner is None


def test_the_data_of_another_user_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "postgres").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(Misconfigured, match=Code.POSTGRES_FAILED):
        choose_account(tmp_path / "postgres")


def test_in_a_container_like_bounding_set_it_runs(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root with setpriv")
    names = "chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,sys_chroot"
    only = "-all,+" + names.replace(",", ",+")
    command = ["setpriv", f"--bounding-set={only}", sys.executable, "-m", "tests.local.runs_postgres"]
    succeeded(*command, tmp_path / "data", "--stop")


def test_a_user_id_without_a_name_is_rejected_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 2_000_000_123)
    with pytest.raises(Misconfigured, match="2000000123") as rejection:
        choose_account(tmp_path / "postgres")
    assert "/etc/passwd" in rejection.value.remedy
