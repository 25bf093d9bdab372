"""Under which account the private Postgres runs, and how it is started so that it ends with its parent.

Postgres refuses to run as root. Started by root, Mirrorgate runs it as the account `nobody`, with one
capability left: to pass through folders that only root may enter. So neither the data directory nor the
folder the program is installed in has to be opened to anybody.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.errors import Code, Misconfigured

SYSTEM_ENVIRONMENT: Final[Mapping[str, str]] = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"}
"""All that a Postgres program is given: no PG* variable of the caller changes what it does."""

_NOBODY: Final = 65534
_REMEDY: Final = "Run as an ordinary user, or set MIRRORGATE_DATABASE_URL to a Postgres of your own."

_CHANGING_ACCOUNT: Final[Mapping[str, int]] = {"chown": 0, "kill": 5, "setgid": 6, "setuid": 7, "setpcap": 8}
"""Linux capabilities, by number, that root needs to start, own and stop a process of another account."""

_PASSING_FOLDERS: Final[Mapping[str, int]] = {"dac_read_search": 2, "dac_override": 1}
"""Either lets a process pass through folders closed to it, the narrower one first; containers often keep
only the second."""


@dataclass(frozen=True, slots=True)
class PostgresAccount:
    """`prefix` goes before a Postgres program's command line; `owner` must own its folders (None: the caller)."""

    prefix: tuple[str, ...]
    owner: tuple[int, int] | None

    def hand_over(self, folder: Path) -> None:
        """Make `folder` belong to the account."""
        if self.owner is not None:
            os.chown(folder, *self.owner)


def _check_known(user: int) -> None:
    """`initdb` looks its account up by number, which fails for one that only a container runtime made up."""
    try:
        pwd.getpwuid(user)
    except KeyError:
        raise Misconfigured(
            Code.POSTGRES_FAILED,
            f"the system knows no user with the id {user}, and a new Postgres cannot be made without one",
            remedy=f"Add the user to /etc/passwd. Or: {_REMEDY}",
        ) from None


def choose_account(postgres_folder: Path) -> PostgresAccount:
    """The account for the Postgres whose data is, or will be, in `postgres_folder`.

    A folder that exists keeps its owner. Raises Misconfigured `postgres_failed` when this process may not
    become that owner.
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
    # Postgres checks its own files with access(2), which without this bit ignores the capability.
    prefix += ["--securebits=+no_setuid_fixup", "--pdeathsig", "INT"]
    return PostgresAccount(tuple(prefix), (user, group))


def _usable_setpriv() -> str | None:
    """The path of setpriv if it knows `--pdeathsig`; other makes of it do not, and not every system has it."""
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
    """The capabilities, as a bit set, that this process has and may hand to a child."""
    facts = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return int(facts["CapPrm"], 16) & int(facts["CapBnd"], 16)


def _passing_capability(held: int) -> str:
    """The capability that lets Postgres reach its files. Raises Misconfigured naming what root lacks here."""
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
