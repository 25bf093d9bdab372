"""`make` sets itself up from Python alone, and says what is missing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.project.facts import REPOSITORY


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What setting up reads, in a folder with a space in its name."""
    place = tmp_path / "a checkout"
    for name in ("Makefile", "pyproject.toml", "requirements/dev.lock", "tools/make_venv.sh"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, place / name)
    return place


def make_venv(checkout: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = ["sh", "tools/make_venv.sh"]
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
    targets = "demo up test test-fast check check-all bench bench-plots fuzz chaos openapi lock docs clean"
    for target in targets.split():
        assert f"  make {target} " in listed


def test_a_python_that_is_too_old_is_named(checkout: Path, tmp_path: Path) -> None:
    old = 'case "$1" in --version) echo "Python 3.9.1" ;; *) exit 1 ;; esac'
    folder = tmp_path / "programs"
    for name in ("python3", "python3.13", "python3.12", "python3.11", "python"):
        fake_python(folder, name, old)
    refused = make_venv(checkout, PATH=f"{folder}:/usr/bin:/bin")
    assert refused.returncode == 1
    assert "Python 3.11 or newer is missing" in refused.stderr
    assert "Found: Python 3.9.1" in refused.stderr
    assert not (checkout / ".venv").exists()


def test_a_given_python_that_does_not_work_is_named(checkout: Path) -> None:
    refused = make_venv(checkout, PYTHON="/nowhere/python3")
    assert refused.returncode == 1
    assert "PYTHON=/nowhere/python3 is not a working Python 3.11 or newer" in refused.stderr


def test_a_python_without_ensurepip_says_which_package_brings_it(checkout: Path, tmp_path: Path) -> None:
    lacking = 'case "$2" in *ensurepip*) exit 1 ;; *print*) echo 3.12 ;; esac'
    python = fake_python(tmp_path / "programs", "python3", lacking)
    refused = make_venv(checkout, PYTHON=str(python))
    assert refused.returncode == 1
    assert "apt-get install python3.12-venv" in refused.stderr
    assert not (checkout / ".venv").exists()


def test_a_complete_environment_is_left_alone_until_what_it_was_made_from_changes(checkout: Path) -> None:
    fake_python(checkout / ".venv", "unused", "")
    fake_python(checkout / ".venv" / "bin", "python", "")
    sources = "pyproject.toml requirements/dev.lock tools/make_venv.sh"
    made_from = subprocess.run(
        f"pwd; cksum {sources}", shell=True, cwd=checkout, capture_output=True, text=True, check=True
    ).stdout
    (checkout / ".venv" / ".complete").write_text(made_from)
    untouched = make_venv(checkout, PYTHON="/nowhere/python3")
    assert (untouched.returncode, untouched.stdout, untouched.stderr) == (0, "", "")
    with (checkout / "requirements" / "dev.lock").open("a") as lock:
        lock.write("# changed\n")
    renewed = make_venv(checkout, PYTHON="/nowhere/python3")
    assert "Installing" in renewed.stdout
    assert "1.5 GB" in renewed.stdout, "somebody who waits wants to know for what and how long"


def test_the_installer_is_installed_by_its_hash_alone_and_everything_else_after_it(checkout: Path) -> None:
    """pip and uv both get --require-hashes; uv itself comes first, from the lines of the lock that are about it."""
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


def test_an_environment_whose_making_was_interrupted_is_made_anew(checkout: Path) -> None:
    fake_python(checkout / ".venv", "half-installed", "")
    refused = make_venv(checkout, PYTHON="/nowhere/python3")
    assert "is not a working Python" in refused.stderr
