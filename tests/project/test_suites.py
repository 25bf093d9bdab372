"""Which suites CI runs for a change."""

import subprocess
from pathlib import Path

import pytest

from tests.project.facts import REPOSITORY
from tests.support.suite import selection
from tests.support.suite.selection import SUITES, changed_paths, is_concerned


def test_every_suite_has_tests_and_code() -> None:
    assert [suite for suite in SUITES if not list((REPOSITORY / suite).rglob("test_*.py"))] == []
    about = [path for paths in SUITES.values() for path in paths]
    assert [path for path in about if not list(REPOSITORY.glob(f"{path.rstrip('/')}*"))] == []


@pytest.mark.parametrize(
    ("changed", "concerned"),
    [
        (["packages/bridge/mirrorgate_bridge/log.py"], {"tests/api/objects", "tests/bridge", "tests/packaging"}),
        (["packages/zone/mirrorgate_zone/verify/codes.py"], {"tests/emulator", "tests/packaging", "tests/verify"}),
        (
            ["app/mirror/target.py"],
            {"tests/emulator", "tests/mirror", "tests/packaging", "tests/spark/mirror", "tests/spark/processes/mirror"},
        ),
        (["tests/sdk/toolchains.py"], {"tests/sdk"}),
        (["README.md", "tests/api/calls.py"], set()),
        (["pyproject.toml"], set(SUITES)),
        (None, set(SUITES)),
    ],
)
def test_a_suite_runs_when_what_it_is_about_has_changed(changed: list[str] | None, concerned: set[str]) -> None:
    assert {suite for suite in SUITES if is_concerned(suite, changed)} == concerned


def test_what_changed_is_told_by_a_given_revision_or_by_the_last_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit(name: str, date: str) -> str:
        (tmp_path / name).touch()
        dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
        for arguments in (["add", name], [*identity, "commit", "-qm", name]):
            subprocess.run(["git", *arguments], cwd=tmp_path, check=True, env={**dates, "PATH": "/usr/bin:/bin"})
        return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=tmp_path, text=True).strip()

    monkeypatch.setattr(selection, "REPOSITORY", tmp_path)
    monkeypatch.delenv("BASE", raising=False)
    assert changed_paths() is None
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    first = commit("first", "2026-01-01T00:00:00Z")
    assert changed_paths() is None
    commit("second", "2026-01-03T00:00:00Z")
    commit("third", "2026-01-03T05:00:00Z")
    assert changed_paths() == ["second", "third"]
    monkeypatch.setenv("BASE", f"{first}~0")
    assert changed_paths() == ["second", "third"]
    monkeypatch.setenv("BASE", "HEAD~1")
    assert changed_paths() == ["third"]
