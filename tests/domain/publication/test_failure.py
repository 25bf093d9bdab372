"""Failures are described by what an operator can act on, and never by a row value."""

import errno
import json

import pytest

from app.domain.publication import Failure, described
from app.errors import Code, InvariantBroken

SECRET = "a row value"


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001  # whatever it is given
        return caught


def test_an_error_of_our_own_is_described_by_itself() -> None:
    error = InvariantBroken(Code.BROKEN_CHAIN, "block 3 is missing", remedy="Restore it.")
    assert described(error) == Failure(Code.BROKEN_CHAIN, "block 3 is missing", "Restore it.")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "Free space or inodes on that disk"),
        (errno.EDQUOT, "Raise the quota"),
        (errno.EROFS, "Mount the file system writable again"),
        (errno.EACCES, "Give the drain's account the right"),
        (errno.EMFILE, "Raise the limit of open files of the drain's process"),
        (errno.ENFILE, "Raise the machine's limit"),
        (errno.EIO, "Check the health"),
        (errno.ESTALE, "Mount the file system again"),
        (errno.ENOENT, "Check that the landing zone is mounted"),
        (errno.EPERM, "Give the drain's account the right"),
    ],
)
def test_a_fault_of_the_file_system_has_its_name_place_and_remedy(number: int, remedy: str) -> None:
    failure = described(OSError(number, "said by the system", "/zone/t"))
    assert failure.code is Code.STORAGE_FAILED
    assert failure.detail == f"{errno.errorcode[number]} (said by the system) at /zone/t"
    assert failure.remedy.startswith(remedy)


def test_a_fault_that_nobody_foresaw_has_the_remedy_of_its_code() -> None:
    failure = described(OSError(errno.EXDEV, ""))
    assert failure.detail == "EXDEV (Invalid cross-device link)"
    assert failure.remedy == InvariantBroken(Code.STORAGE_FAILED, "").remedy


def test_a_fault_without_a_number_has_its_text_or_its_type() -> None:
    assert described(OSError("the mount is gone")).detail == "the mount is gone"
    assert described(TimeoutError()).detail == "TimeoutError"
    assert described(OSError(99_999, None)).detail.startswith("99999 (")


@pytest.mark.parametrize("error", [ValueError(SECRET), KeyError(SECRET), ConnectionResetError(104, SECRET)])
def test_any_other_error_is_described_by_its_type_and_line_alone(error: Exception) -> None:
    failure = described(raised(error))
    assert failure.code is Code.INTERNAL
    assert failure.detail.startswith(f"{type(error).__name__} in raised (test_failure.py:")
    assert failure.remedy.startswith("Report it with this line")
    assert SECRET not in failure.detail + failure.remedy


def outer() -> None:
    raised_inside()


def raised_inside() -> None:
    json.loads("{")


def test_the_line_that_raised_the_error_is_shown_and_not_one_that_called_it() -> None:
    with pytest.raises(ValueError, match="Expecting") as caught:
        outer()
    assert described(caught.value).detail.startswith("JSONDecodeError in raw_decode (decoder.py:")


def test_an_error_that_was_never_raised_has_no_line() -> None:
    assert described(ValueError(SECRET)).detail == "ValueError"
