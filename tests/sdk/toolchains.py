"""Client generators, each in its own folder under build/; neither is a dependency of Mirrorgate.

A folder is made once for each lock. One that was not finished is made again.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.processes import REPOSITORY

PYTHON_LOCK = REPOSITORY / "requirements" / "sdk.lock"
NPM_FILES = [REPOSITORY / "tests" / "sdk" / "typescript" / name for name in ("package.json", "package-lock.json")]
OLDEST_NODE = 20
_UV = (sys.executable, "-m", "uv")

_NO_REGISTRY = (
    *("dns error", "tcp connect error", "error sending request", "operation timed out", "network was disabled"),
    *("401 Unauthorized", "403 Forbidden", "404 Not Found", "not found in the package registry"),
    *("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "ENOTCACHED"),
    *("E401", "E403", "E404"),
)
"""What uv and npm write when no registry answers, or the one that answers does not have the package."""


def python_programs() -> Path:
    """Return the folder of programs with openapi-python-client and a Python that has what generated clients need.

    It cannot be in the project's own environment, because it wants an older typer.
    """
    return python_environment("python", PYTHON_LOCK)


def python_environment(name: str, lock: Path) -> Path:
    """Return the folder of programs of an environment that has the packages of a lock."""

    def install(folder: Path) -> None:
        _install([*_UV, "venv", "--quiet", "--python", sys.executable, str(folder)])
        python = str(folder / "bin" / "python")
        _install([*_UV, "pip", "install", "--quiet", "--python", python, "--requirements", str(lock)])

    return _made(name, [lock], install) / "bin"


def python_packages(name: str, listed: Path) -> Path:
    """Return a folder with these packages alone, which any Python finds through PYTHONPATH."""

    def install(folder: Path) -> None:
        command = [*_UV, "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        _install([*command, "--python", sys.executable, "--requirements", str(listed)])

    return _made(name, [listed], install)


def node_modules() -> Path:
    """Return the `node_modules` with openapi-typescript, openapi-fetch and TypeScript. Skips without Node."""
    needed = "the TypeScript client is not generated"
    return npm_packages("typescript", NPM_FILES, ["ci"], needed)


def npm_packages(name: str, made_from: list[Path], command: list[str], needed: str) -> Path:
    """Return the `node_modules` that an npm command makes in a folder of some files. Skips without Node."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip(f"Node and npm are not installed: {needed}")
    version = _output(["node", "--version"]).removeprefix("v")
    if int(version.partition(".")[0]) < OLDEST_NODE:
        pytest.skip(f"Node {version} is older than {OLDEST_NODE}: {needed}")

    def install(folder: Path) -> None:
        folder.mkdir(parents=True)
        for file in made_from:
            shutil.copy(file, folder)
        _install(["npm", *command, "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries", "1"], folder)

    return _made(name, made_from, install) / "node_modules"


def _made(name: str, made_from: list[Path], make: Callable[[Path], None]) -> Path:
    """Return the folder that is made once for each content of these files."""
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in made_from)).hexdigest()
    folder = REPOSITORY / "build" / "sdk" / f"{name}-{digest[:12]}"
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        make(folder)
        (folder / ".complete").touch()
    return folder


def _install(command: list[str], folder: Path = REPOSITORY) -> None:
    """Run an installer; skips where no registry gives it the packages, fails for anything else."""
    reason = "no package registry can be reached, or it lacks a package"
    try:
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(reason)
    if ran.returncode != 0 and any(sign in ran.stderr for sign in _NO_REGISTRY):
        pytest.skip(reason)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
