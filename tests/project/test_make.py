"""`make` sets itself up with only Python, and names what is missing."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.project.facts import BRIDGE, CLIENT, REPOSITORY, ZONE

LOCKS: Final = {"run": "requirements/run.lock", "dev": "requirements/dev.lock"}
"""What each level of .venv is made from."""
PROJECTS: Final = ("pyproject.toml", *(f"{folder}/pyproject.toml" for folder in (CLIENT, BRIDGE, ZONE)))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Give the files that set-up reads, in a folder with a space in its name."""
    place = tmp_path / "a checkout"
    for name in ("Makefile", *PROJECTS, *LOCKS.values(), "tools/make_venv.sh"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, place / name)
    return place


def make_venv(checkout: Path, level: str = "dev", **environment: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = ["sh", "tools/make_venv.sh", level]
    return subprocess.run(
        command, cwd=checkout, env=kept | environment, capture_output=True, text=True, timeout=60, check=False
    )


def fake_python(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def test_make_alone_lists_every_target_that_is_meant_to_be_called() -> None:
    listed = subprocess.run(["make"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    targets = (
        "demo up test test-fast test-all check bench bench-plots fuzz chaos model openapi lock docs site schema clean"
    )
    for target in targets.split():
        assert f"  make {target} " in listed


def test_a_python_that_is_too_old_is_named(checkout: Path, tmp_path: Path) -> None:
    old = 'case "$1" in --version) echo "Python 3.9.1" ;; *) exit 1 ;; esac'
    folder = tmp_path / "programs"
    for name in ("python3", "python3.13", "python3.12", "python3.11", "python"):
        fake_python(folder, name, old)
    rejected = make_venv(checkout, PATH=f"{folder}:/usr/bin:/bin")
    assert rejected.returncode == 1
    assert "Python 3.11 or newer is missing" in rejected.stderr
    assert "Found: Python 3.9.1" in rejected.stderr
    assert not (checkout / ".venv").exists()


def test_a_given_python_that_does_not_work_is_named(checkout: Path) -> None:
    rejected = make_venv(checkout, PYTHON="/nowhere/python3")
    assert rejected.returncode == 1
    assert "PYTHON=/nowhere/python3 is not a working Python 3.11 or newer" in rejected.stderr


def test_a_python_without_ensurepip_says_which_package_brings_it(checkout: Path, tmp_path: Path) -> None:
    lacking = 'case "$2" in *ensurepip*) exit 1 ;; *print*) echo 3.12 ;; esac'
    python = fake_python(tmp_path / "programs", "python3", lacking)
    rejected = make_venv(checkout, PYTHON=str(python))
    assert rejected.returncode == 1
    assert "apt-get install python3.12-venv" in rejected.stderr
    assert not (checkout / ".venv").exists()


def made_from(checkout: Path, level: str) -> str:
    """Return the stamp of a .venv of this level."""
    sources = " ".join([*PROJECTS, LOCKS[level], "tools/make_venv.sh"])
    command = f"pwd; cksum {sources}"
    return subprocess.run(command, shell=True, cwd=checkout, capture_output=True, text=True, check=True).stdout


def complete_environment(checkout: Path, level: str, python: str = "") -> None:
    """Return a .venv of this level, whose Python does what the script says."""
    fake_python(checkout / ".venv", "unused", "")
    fake_python(checkout / ".venv" / "bin", "python", python)
    (checkout / ".venv" / ".complete").write_text(made_from(checkout, level))


@pytest.mark.parametrize(
    ("command", "level"), [("demo", "run"), ("up", "run"), ("test", "dev"), ("check", "dev"), ("bench", "dev")]
)
def test_running_the_gateway_installs_no_development_tools(command: str, level: str) -> None:
    planned = subprocess.run(["make", "-n", command], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert planned.splitlines()[0].endswith(f"sh tools/make_venv.sh {level}")


@pytest.mark.parametrize("level", LOCKS)
def test_a_complete_environment_is_left_alone_until_what_it_was_made_from_changes(checkout: Path, level: str) -> None:
    complete_environment(checkout, level)
    untouched = make_venv(checkout, level, PYTHON="/nowhere/python3")
    assert (untouched.returncode, untouched.stdout, untouched.stderr) == (0, "", "")
    with (checkout / LOCKS[level]).open("a") as lock:
        lock.write("# changed\n")
    renewed = make_venv(checkout, level, PYTHON="/nowhere/python3")
    assert f"Installing the packages of {LOCKS[level]}" in renewed.stdout
    assert (checkout / ".venv" / ".complete").read_text() == made_from(checkout, level)


def test_running_needs_nothing_more_where_the_development_tools_are(checkout: Path) -> None:
    complete_environment(checkout, "dev")
    untouched = make_venv(checkout, "run", PYTHON="/nowhere/python3")
    assert (untouched.returncode, untouched.stdout, untouched.stderr) == (0, "", "")
    assert (checkout / ".venv" / ".complete").read_text() == made_from(checkout, "dev")


def test_development_tools_are_added_to_what_running_has_installed(checkout: Path) -> None:
    complete_environment(checkout, "run")
    added = make_venv(checkout, "dev", PYTHON="/nowhere/python3")
    assert added.returncode == 0, "the environment is kept, so no other Python is looked for"
    assert "Installing the packages of requirements/dev.lock" in added.stdout
    assert (checkout / ".venv" / "unused").exists()
    assert (checkout / ".venv" / ".complete").read_text() == made_from(checkout, "dev")


@pytest.mark.parametrize("level", LOCKS)
def test_each_step_of_an_installation_and_its_cost_are_told(checkout: Path, level: str) -> None:
    complete_environment(checkout, "run")
    (checkout / ".venv" / ".complete").write_text("made from something else")
    said = make_venv(checkout, level).stdout.splitlines()
    assert re.search(r"0\.\d GB to download, [12]\.\d GB on disk", said[0])
    assert "half a minute to three minutes" in said[1]
    assert [line.split()[0] for line in said[2:5]] == ["1/3", "2/3", "3/3"]
    assert re.fullmatch(r"Installed in \d+ s; \.venv has \d+ MB", said[5])


def test_a_level_must_be_named(checkout: Path) -> None:
    rejected = make_venv(checkout, "everything")
    assert (rejected.returncode, rejected.stderr) == (1, "error: Name a level: sh tools/make_venv.sh run|dev\n")


def test_the_installer_is_installed_by_its_hash_alone_and_everything_else_after_it(checkout: Path) -> None:
    """pip and uv both get --require-hashes; uv itself is installed first, from its lines of the lock."""
    fake_python(checkout / ".venv", "unused", "")
    calls = checkout / "calls"
    record = f'printf "%s\\n" "$*" >>"{calls}"'
    fails_for_uv = 'case "$*" in *"-m uv pip install"*) exit 1 ;; esac'
    fake_python(checkout / ".venv" / "bin", "python", f"{record}\n{fails_for_uv}")
    (checkout / ".venv" / ".complete").write_text("made from something else")
    made = make_venv(checkout)
    assert made.returncode == 0, made.stderr
    said = [call for call in calls.read_text().splitlines() if "install" in call]
    assert "--require-hashes --requirement .venv/uv.lock" in said[0]
    lock = (checkout / ".venv" / "uv.lock").read_text()
    assert [line.split("==")[0] for line in lock.splitlines() if "==" in line] == ["uv"]
    assert "--hash=sha256:" in lock
    assert [("uv pip" in call, "--require-hashes" in call) for call in said[1:]] == [
        (True, True), (False, True), (True, False), (False, False),
    ]  # fmt: skip
    assert "trying pip" in made.stderr


@pytest.mark.parametrize("level", LOCKS)
def test_an_environment_whose_making_was_interrupted_is_made_again(checkout: Path, level: str) -> None:
    fake_python(checkout / ".venv", "half-installed", "")
    rejected = make_venv(checkout, level, PYTHON="/nowhere/python3")
    assert "is not a working Python" in rejected.stderr


def test_an_interrupted_addition_of_the_development_tools_leaves_no_stamp(checkout: Path) -> None:
    complete_environment(checkout, "run", python='case "$*" in *requirements/dev.lock*) exit 1 ;; esac')
    assert make_venv(checkout, "dev").returncode != 0
    assert not (checkout / ".venv" / ".complete").exists()
