"""`make release ARGS=--dry-run` builds what a release publishes, and tries it as a user would."""

import subprocess
import sys

import pytest

from tests.project.facts import REPOSITORY


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_a_release_is_built_and_its_packages_send_rows_from_an_empty_environment() -> None:
    command = [sys.executable, "-m", "tools.release", "--dry-run", "--no-images"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "quick start from an empty environment: done" in done.stdout


def test_a_release_that_is_not_a_dry_run_needs_the_tag_of_its_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.release", "--no-images"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "error: the version's tag:" in done.stdout
