"""The data directory of `mirrorgate up` or an emulator: locked so that one process uses it, closed to other accounts.

Its file `settings.env`, which `mirrorgate fabric init` writes, has variables of this gateway. `mirrorgate up` and the
commands with `--data-dir` take from it what their environment does not set. Only MIRRORGATE_* and AZURE_* are allowed,
so that the file cannot change how programs are loaded.
"""

import fcntl
import os
import re
import shlex
import stat
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Final, Self

from mirrorgate.errors import Code, Misconfigured

_OTHER_ACCOUNTS: Final = 0o077
"""The permission bits of the group and of everybody else."""


class DataDirectory:
    """A data directory that this process has locked; created (mode 0700) if it is missing.

    The kernel releases the lock when the process ends, however it ends. The lock file remains and holds the pid of its
    last owner.
    """

    def __init__(self, path: Path, *, owner: str = "a gateway") -> None:
        """Name the directory, and the `owner` that errors name as using it."""
        self.path = path.absolute()
        self._owner = owner
        self._descriptor: int | None = None
        self._has_other_folders = False

    def check(self) -> None:
        """Raise Misconfigured as entering would, without creating anything."""
        present = next(path for path in (self.path, *self.path.parents) if path.exists())
        if not present.is_dir() or not os.access(present, os.W_OK | os.X_OK):
            why = "cannot be written by this user" if present.is_dir() else "is not a folder"
            raise self._unusable(f"{present} {why}")
        if (self.path / "lock").exists():
            with self:
                pass

    def __enter__(self) -> Self:
        """Take the lock. Raises Misconfigured `already_running` with the directory and the pid of the owner."""
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise Misconfigured(
                Code.ALREADY_RUNNING, f"{self._owner} with pid {holder} is running on the data directory {self.path}"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor
        return self

    def close_to_others(self) -> str | None:
        """Take the permissions of other accounts away, and return what was done, None if they had none.

        A folder that no gateway has used and that has folders in it may be one that other programs need, such as /srv.
        It remains as it is, like one that belongs to another account: the files of the gateway are private in
        themselves. Call this with the lock held.
        """
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if not mode & _OTHER_ACCOUNTS:
            return None
        told = f"other accounts could enter the data directory {self.path} (mode {mode:04o})"
        why = "it has folders that are not a gateway's"
        if not self._has_other_folders:
            try:
                self.path.chmod(mode & ~_OTHER_ACCOUNTS)
            except OSError as error:
                why = f"this user cannot change its mode ({error.strerror})"
            else:
                return f"{told}, and no longer can"
        return f"{told}, and still can, because {why}"

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = self.path / "lock"
            self._has_other_folders = not lock.exists() and any(entry.is_dir() for entry in self.path.iterdir())
            return os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._unusable(str(error.strerror)) from error

    def _unusable(self, why: str) -> Misconfigured:
        return Misconfigured(
            Code.BAD_SETTING,
            f"the data directory {self.path} cannot be used: {why}",
            remedy="Give a --data-dir (or --directory of the emulator) that this user can create and write.",
        )


SETTINGS_FILE: Final = "settings.env"
_ALLOWED: Final = re.compile(r"(MIRRORGATE|AZURE)_[A-Z0-9_]+")
_HEADER: Final = (
    "# Variables of the gateway on this data directory. `mirrorgate up` reads them; the environment goes before them.\n"
)


def read_settings_file(data_dir: Path) -> dict[str, str]:
    """Return the variables of the data directory's settings file, none without a file.

    A line is empty, a comment with `#`, or NAME=value with the value quoted as in a shell. Raise Misconfigured
    `bad_setting` with the line's number, never with its text.
    """
    file = data_dir / SETTINGS_FILE
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(f"{file} cannot be read: {type(error).__name__}") from None
    variables: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, quoted = line.strip().partition("=")
        try:
            words = shlex.split(quoted)
        except ValueError:
            words = ["", ""]
        if not separator or not _ALLOWED.fullmatch(name) or len(words) > 1:
            raise _unreadable(f"line {number} of {file} is not MIRRORGATE_NAME=value or AZURE_NAME=value")
        variables[name] = "".join(words)
    return variables


def write_settings_file(data_dir: Path, variables: Mapping[str, str | None]) -> bool:
    """Set variables in the data directory's settings file, mode 0600, and keep its others; return whether it changed.

    None removes a variable. A process that dies inside leaves the former file. Raise Misconfigured.
    """
    before = read_settings_file(data_dir)
    after = {name: value for name, value in {**before, **variables}.items() if value is not None}
    if after == before:
        return False
    text = _HEADER + "".join(f"{name}={shlex.quote(value)}\n" for name, value in sorted(after.items()))
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(data_dir / SETTINGS_FILE, text)
    except OSError as error:
        raise _unreadable(f"{data_dir / SETTINGS_FILE} cannot be written: {error.strerror}") from None
    return True


def apply_settings_file(data_dir: Path, environment: MutableMapping[str, str]) -> None:
    """Set the variables of the settings file that the environment does not set. Raise Misconfigured `bad_setting`."""
    for name, value in read_settings_file(data_dir).items():
        environment.setdefault(name, value)


def write_private(file: Path, text: str) -> None:
    """Replace `file` atomically and durably, readable by this user only."""
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    new.replace(file)


def _unreadable(why: str) -> Misconfigured:
    return Misconfigured(Code.BAD_SETTING, why, remedy="Correct the file, or delete it and set the variables yourself.")
