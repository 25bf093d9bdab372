"""The systemd units run commands that exist, are valid for systemd, and confine their processes."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from app.settings import Settings
from tests.project.facts import REPOSITORY
from tests.support.command_tree import find_command

FOLDER: Final = REPOSITORY / "deploy" / "systemd"
UNITS: Final = sorted(path.name for path in FOLDER.glob("*.service"))
PROGRAM: Final = "/opt/mirrorgate/bin/mirrorgate"
MAX_EXPOSURE: Final = 20
"""Tenths of systemd's exposure level, from 0 to 100; units without any hardening have 96."""


class _Unit(configparser.RawConfigParser):
    """A unit file: names keep their case; of repeated names the last one counts."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def unit(name: str) -> _Unit:
    read = _Unit(strict=False, delimiters="=", allow_no_value=True)
    read.read(FOLDER / name)
    return read


def confinement(name: str) -> list[str]:
    """Return the lines below the comment that all units share."""
    text = (FOLDER / name).read_text()
    return text[text.index("# The process sees the system read-only") :].split("\n[Install]")[0].strip().splitlines()


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_runs_a_command_that_exists(name: str) -> None:
    program, *words = unit(name)["Service"]["ExecStart"].split()
    assert program == PROGRAM
    found = find_command(*words)
    assert not hasattr(found, "commands")
    options = {option for parameter in found.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= options


@pytest.mark.parametrize("name", UNITS)
def test_every_unit_confines_its_process_in_the_same_way(name: str) -> None:
    assert confinement(name) == confinement("mirrorgate-api.service")
    service = unit(name)["Service"]
    assert service["ProtectSystem"] == "strict" and service["CapabilityBoundingSet"] == ""
    assert service.get("DynamicUser") == "yes" or service["User"] == "mirrorgate"


@pytest.mark.parametrize("name", [name for name in UNITS if "migrate" not in name])
def test_a_unit_starts_again_unless_an_operator_has_to_act(name: str) -> None:
    service = unit(name)["Service"]
    assert (service["Restart"], service["RestartPreventExitStatus"]) == ("always", "78")
    assert unit(name)["Install"]["WantedBy"] == "mirrorgate.target"
    assert unit(name)["Unit"]["StartLimitIntervalSec"] == "0"


def test_nothing_that_needs_the_schema_starts_before_the_migration_ended() -> None:
    for name in ("api", "drain", "mirror"):
        assert "mirrorgate-migrate.service" in unit(f"mirrorgate-{name}.service")["Unit"]["After"].split()
    assert unit("mirrorgate-migrate.service")["Service"]["Type"] == "oneshot"


def test_secrets_are_read_from_files_of_root_and_are_not_in_the_units() -> None:
    for name in UNITS:
        text = (FOLDER / name).read_text()
        assert re.search(r"^EnvironmentFile=/etc/mirrorgate/(gateway|bridge)\.env$", text, re.MULTILINE)
        assert not re.search(r"PASSWORD|ADMIN_KEY|SECRET", text)
    for example in FOLDER.glob("*.env.example"):
        assert "root with mode 0600" in example.read_text().splitlines()[0]


def test_every_variable_of_the_examples_is_known() -> None:
    known = {f"MIRRORGATE_{name.upper()}" for name in Settings.model_fields} | {"MIRRORGATE_URL", "MIRRORGATE_API_KEY"}
    for path in FOLDER.iterdir():
        assert set(re.findall(r"\bMIRRORGATE_[A-Z_]+", path.read_text())) <= known, path.name


def analyze(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run systemd-analyze on copies whose programs exist here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is missing: apt-get install systemd")
    here = Path(sys.executable).parent / "mirrorgate"
    for path in [*FOLDER.glob("*.service"), *FOLDER.glob("*.target")]:
        (folder / path.name).write_text(path.read_text().replace(PROGRAM, str(here)))
    command = ["systemd-analyze", *arguments, *(str(path) for path in sorted(folder.glob("*.service")))]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_systemd_finds_nothing_wrong_in_the_units(tmp_path: Path) -> None:
    checked = analyze(tmp_path, "verify", "--man=no")
    assert (checked.returncode, checked.stderr) == (0, "")


def test_systemd_rates_the_units_as_confined(tmp_path: Path) -> None:
    rated = analyze(tmp_path, "security", "--offline=true", "--no-pager", f"--threshold={MAX_EXPOSURE}")
    if "--offline" in rated.stderr:
        pytest.skip("this systemd cannot rate units that are not loaded")
    assert rated.returncode == 0, rated.stdout


def test_systemd_makes_the_account_of_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-sysusers") is None:
        pytest.skip("systemd-sysusers is missing: apt-get install systemd")
    (tmp_path / "etc").mkdir()
    command = ["systemd-sysusers", f"--root={tmp_path}", str(FOLDER / "mirrorgate.sysusers.conf")]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    [account] = (tmp_path / "etc" / "passwd").read_text().splitlines()
    assert account.split(":")[0] == "mirrorgate" and account.endswith(":/var/lib/mirrorgate:/usr/sbin/nologin")
