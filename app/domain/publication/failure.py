"""Describes failures for logs, a table's status and metrics. Invariant: a description never has a row value."""

import errno
import os
import traceback
from dataclasses import dataclass
from typing import Final

from app.errors import Code, MirrorgateError, StorageError

_REMEDIES: Final = {
    errno.ENOSPC: "Free space or inodes on that disk, or make it larger; the table is retried automatically.",
    errno.EDQUOT: "Raise the quota of the drain's account on that disk; the table is retried automatically.",
    errno.EROFS: "Mount the file system writable again; the table is retried automatically.",
    errno.EACCES: "Give the drain's account the right to read and write there.",
    errno.EPERM: "Give the drain's account the right to read and write there, and remove immutable attributes.",
    errno.EMFILE: "Raise the limit of open files of the drain's process (`ulimit -n`).",
    errno.ENFILE: "Raise the machine's limit of open files (`fs.file-max`).",
    errno.EIO: "Check the health of that disk or mount.",
    errno.ESTALE: "Mount the file system again.",
    errno.ENOENT: "Check that the landing zone is mounted on the machine of the drain and of each Spark executor; a "
    "lost file is built again automatically.",
}
_REPORT: Final = "Report it with this line and the version; the failed step is retried automatically."


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed: a stable code, what and where, and what an operator can do."""

    code: Code
    detail: str
    remedy: str


def described(error: BaseException) -> Failure:
    """Describe any exception.

    Only texts of Mirrorgate's own errors and of the operating system are shown. Others can contain values, so the type
    and the line that raised it are shown instead.
    """
    if isinstance(error, MirrorgateError):
        return Failure(error.code, error.detail, error.remedy)
    if isinstance(error, OSError) and not isinstance(error, ConnectionError):  # Spark's gateway raises ConnectionError
        code = error.meaning if isinstance(error, StorageError) else Code.STORAGE_FAILED
        return Failure(code, _storage_text(error), _REMEDIES.get(error.errno or 0) or _remedy(code))
    return Failure(Code.INTERNAL, f"{type(error).__name__} {_raised_at(error)}".strip(), _REPORT)


def _storage_text(error: OSError) -> str:
    if error.errno is None:
        return str(error) or type(error).__name__
    name = errno.errorcode.get(error.errno, str(error.errno))
    where = f" at {error.filename}" if error.filename else ""
    return f"{name} ({error.strerror or os.strerror(error.errno)}){where}"


def _raised_at(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"in {frames[-1].name} ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""  # noqa: PTH119  # only the name: no path is accessed


def _remedy(code: Code) -> str:
    return MirrorgateError(code, "").remedy
