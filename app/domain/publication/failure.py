"""Say what went wrong in a form that a log, a table's status and a metric may show: never with a row value."""

import errno
import os
import traceback
from dataclasses import dataclass
from typing import Final

from app.errors import Code, MirrorgateError

_REMEDIES: Final = {
    errno.ENOSPC: "Free space or inodes on that disk, or make it larger; the table is tried again by itself.",
    errno.EDQUOT: "Raise the quota of the drain's account on that disk; the table is tried again by itself.",
    errno.EROFS: "Mount the file system writable again; the table is tried again by itself.",
    errno.EACCES: "Give the drain's account the right to read and write there.",
    errno.EPERM: "Give the drain's account the right to read and write there, and remove immutable attributes.",
    errno.EMFILE: "Raise the limit of open files of the drain's process (`ulimit -n`).",
    errno.ENFILE: "Raise the machine's limit of open files (`fs.file-max`).",
    errno.EIO: "Look at the health of that disk or mount.",
    errno.ESTALE: "Mount the file system again.",
    errno.ENOENT: "Check that the landing zone is mounted; a file that was lost is built again by itself.",
}
_REPORT: Final = "Report it with this line and the version; what failed is tried again by itself."


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed: a stable code, where and what, and what an operator can do."""

    code: Code
    detail: str
    remedy: str


def described(error: BaseException) -> Failure:
    """Describe any exception. The text of one that is not Mirrorgate's own or the operating system's stays out, because
    it may hold values: its type and the place where it was raised stand for it."""
    if isinstance(error, MirrorgateError):
        return Failure(error.code, error.detail, error.remedy)
    if isinstance(error, OSError) and not isinstance(error, ConnectionError):  # which Spark's gateway raises
        remedy = _REMEDIES.get(error.errno or 0) or _remedy(Code.STORAGE_FAILED)
        return Failure(Code.STORAGE_FAILED, _storage_text(error), remedy)
    return Failure(Code.INTERNAL, f"{type(error).__name__} {_place(error)}".strip(), _REPORT)


def _storage_text(error: OSError) -> str:
    if error.errno is None:
        return str(error) or type(error).__name__
    name = errno.errorcode.get(error.errno, str(error.errno))
    where = f" at {error.filename}" if error.filename else ""
    return f"{name} ({error.strerror or os.strerror(error.errno)}){where}"


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"in {frames[-1].name} ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""  # noqa: PTH119  # a name only: no path is looked at


def _remedy(code: Code) -> str:
    return MirrorgateError(code, "").remedy
