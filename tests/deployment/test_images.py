"""`make images` builds the Dockerfile on packages of Debian, and the services of compose.yaml run on what it builds."""

import shutil
import subprocess
from typing import Final

import pytest

from tests.project.facts import REPOSITORY

SCRIPTS: Final = ("tools/images.sh", "tools/postgres/entry.sh", "docker/slim.sh")
EXIT_MISSING: Final = 77


def make_images(*arguments: str) -> str:
    """Run `make images`; return what it printed. Skips the test without root or a program."""
    command = ["bash", "tools/images.sh", *arguments]
    done = subprocess.run(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode == EXIT_MISSING:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_the_images_are_small_and_carry_rows_to_the_landing_zone_as_compose_yaml_runs_them() -> None:
    told = make_images("--up").splitlines()
    for target in ("api", "bridge", "drain"):
        assert [line for line in told if line.startswith(f"{target}: ")], told
    assert [line for line in told if " stopped " not in line and ": " not in line][-6:] == [
        "postgres is healthy",
        "api is healthy",
        "drain is healthy",
        "the batch is in the landing zone",
        "the bridge's row is in the landing zone",
        "the mirror has read the landing zone",
    ]
    assert [line.split()[0] for line in told if " stopped " in line] == ["drain", "api", "postgres"]


def test_shellcheck_finds_nothing_in_the_scripts_of_images() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is missing: apt-get install shellcheck")
    checked = subprocess.run(["shellcheck", *SCRIPTS], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
