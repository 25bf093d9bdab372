"""Which tests a run collects: `pytest --suites gateway`, `changed`, `all` or `real`.

Most tests are about the gateway, and `make test` runs them. The suites of `SUITES` are about what surrounds it
(senders, bridges, the Delta mirror, `verify`, packages), or look for rare faults for a long time. CI runs a suite when
what it is about has changed.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.project.facts import REPOSITORY

GATEWAY_CODE: Final = ("app/api/", "app/ingest/", "app/landing/", "app/staging/", "migrations/", "spark_jobs/")
MIRROR_CODE: Final = ("app/landing/", "app/mirror/", "app/published/", "spark_jobs/mirror", "spark_jobs/spark/")

SUITES: Final = {
    "tests/api/client": (*GATEWAY_CODE, "clients/python/"),
    "tests/api/console/browser": ("app/api/console/", "app/console/"),
    "tests/api/objects": (*GATEWAY_CODE, "clients/python/", "examples/", "packages/bridge/"),
    "tests/benchmarks": ("benchmarks/", "docs/contribute/"),
    "tests/bridge": (
        "app/formats/csv",
        "clients/python/",
        "docker/",
        "docs/tutorials/",
        "packages/bridge/",
    ),
    "tests/chaos": GATEWAY_CODE,
    "tests/client": ("clients/python/", "tools/release"),
    "tests/conformance": ("app/fabric/", "app/landing/", "tools/conformance/"),
    "tests/contract/fuzzing": ("app/api/", "app/ingest/", "openapi/"),
    "tests/deployment": ("Dockerfile", "app/settings/", "compose", "deploy/", "docker/", "requirements/", "tools/"),
    "tests/emulator": (
        "app/cli/fabric",
        "app/fabric/",
        "app/mirror/",
        "clients/python/mirrorgate/testing.py",
        "docs/get-started/fabric.md",
        "docs/operate/emulator.md",
        "docs/operate/fabric-database.md",
        "docs/troubleshoot/not-in-fabric.md",
        "packages/zone/",
    ),
    "tests/fuzz": ("app/formats/", "app/ingest/"),
    "tests/memory": GATEWAY_CODE,
    "tests/mirror": MIRROR_CODE,
    "tests/overload": ("app/api/", "app/ingest/"),
    "tests/packaging": ("app/", "clients/", "packages/", "requirements/", "spark_jobs/"),
    "tests/protocol": ("app/landing/", "docs/contribute/publication-protocol.md", "spark_jobs/"),
    "tests/sdk": (
        *GATEWAY_CODE,
        "clients/python/",
        "docs/send/",
        "docs/tutorials/",
        "examples/",
        "openapi/",
        "tests/end_to_end/reader",
    ),
    "tests/site": ("clients/python/mirrorgate/errors/", "docs/", "mkdocs.yml", "openapi/", "tools/"),
    "tests/soak": (),
    "tests/spark/mirror": (*MIRROR_CODE, "tests/mirror/"),
    "tests/spark/processes/mirror": (
        *MIRROR_CODE,
        "app/cli/mirror/",
        "app/local/",
        "tests/mirror/",
        "tests/spark/mirror/",
    ),
    "tests/verify": ("app/landing/", "app/published/", "packages/zone/"),
}
"""Folder of a suite, and beginnings of the paths that it is about; its own folder is always one."""

REAL: Final = "tests/real"
"""The gateway against programs that others wrote. Only `make test-real` collects it."""


def add_option(parser: pytest.Parser) -> None:
    """Add `--suites`."""
    parser.addoption(
        "--suites",
        choices=("gateway", "changed", "all", "real"),
        default="all",
        help="run the gateway's tests only, also the suites of what has changed since BASE, (default) all suites, or "
        "tests/real, which installs programs and belongs to no other choice",
    )


def is_left_out(path: Path, config: pytest.Config) -> bool:
    """Return whether the run does not collect this file or folder."""
    name = path.relative_to(REPOSITORY).as_posix() if path.is_relative_to(REPOSITORY) else ""
    choice = config.getoption("suites")
    if name == REAL:
        return choice != "real"
    if choice in ("all", "real") or name not in SUITES:
        return False
    return choice == "gateway" or not is_concerned(name, changed_paths())


def is_concerned(suite: str, changed: list[str] | None) -> bool:
    """Return whether one of these paths is a suite's; None for paths that are not known."""
    return changed is None or any(path.startswith((f"{suite}/", "pyproject.toml", *SUITES[suite])) for path in changed)


def changed_paths() -> list[str] | None:
    """Return what has changed since the revision BASE, or else in the last day of history; None outside of a clone."""
    base = os.environ.get("BASE") or _day_before_the_last_commit()
    changed = _git("diff", "--name-only", f"{base}...HEAD") if base else None
    return None if changed is None else changed.splitlines()


def _day_before_the_last_commit() -> str | None:
    written = _git("log", "-1", "--format=%ct")
    return _git("rev-list", "-1", f"--before={int(written) - 86_400}", "HEAD") if written else None


def _git(*arguments: str) -> str | None:
    try:
        ended = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return ended.stdout.strip() if ended.returncode == 0 else None
