"""Names and numbers of data files: 20 digits, from 1, without a gap, each number once."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from app.landing.landed_state import CONSUMED_FOLDERS
from app.landing.zone import PathKind
from app.published.table_metadata import TableMetadata
from app.verify.codes import FindingCode
from app.verify.finding import Finding
from app.verify.table_view import TableView

_NUMBER: Final = re.compile(r"(\d+)\.(.+)", re.ASCII | re.DOTALL)
_DATA_NAME: Final = re.compile(r".*\.(?:parquet|csv|txt|tsv|psv)(?:\.gz|\.zst)?", re.IGNORECASE | re.DOTALL)
_DIGITS: Final = 20


def file_names(view: TableView) -> Iterator[Finding]:
    """Check the name of each visible file of the table folder."""
    by_time = view.metadata is not None and view.metadata.is_ordered_by_time
    allowed = _extensions(view.metadata)
    for name, kind in sorted(view.files.kinds.items()):
        if kind is PathKind.FILE and not name.startswith("_"):
            problem = _problem(name, allowed, by_time=by_time)
            if problem is not None:
                yield view.finding(*problem, f"{view.table.folder}/{name}")


def numbers(view: TableView) -> Iterator[Finding]:
    """Check that the numbers are continuous and unique."""
    if view.metadata is not None and view.metadata.is_ordered_by_time:
        return
    found = [*view.files.numbered]
    if found and found[0] > 1 and not any(folder in view.files.kinds for folder in CONSUMED_FOLDERS):
        first = view.files.numbered[found[0]]
        yield view.finding(FindingCode.FIRST_FILE_MISSING, f"the first file has number {found[0]}", first.path)
    for number, following in pairwise(found):
        if following > number + 1:
            missing, last = number + 1, following - 1
            what = f"file {missing} is missing" if missing == last else f"files {missing} to {last} are missing"
            extension = view.files.numbered[number].name[_DIGITS:]
            path = f"{view.table.folder}/{missing:0{_DIGITS}d}{extension}"
            yield view.finding(FindingCode.NUMBER_GAP, f"{what}, and file {following} is there", path)
    for file in view.files.repeated:
        if file.number is not None:
            other = view.files.numbered[file.number]
            yield view.finding(FindingCode.NUMBER_REPEATED, f"{other.path} has the same number", file.path)


def _problem(name: str, allowed: frozenset[str], *, by_time: bool) -> tuple[FindingCode, str] | None:
    match = _NUMBER.fullmatch(name)
    extension = match[2] if match else name.partition(".")[2]
    is_data = _DATA_NAME.fullmatch(name) is not None
    expected = " or ".join(f".{one}" for one in sorted(allowed))
    if match and len(match[1]) == _DIGITS:
        if int(match[1]) == 0:
            return FindingCode.NUMBER_ZERO, "numbers begin at 1"
        return None if extension in allowed else (FindingCode.WRONG_EXTENSION, f"the extension must be {expected}")
    if not is_data and extension not in allowed:
        return FindingCode.FOREIGN_FILE, "its name is not that of a data file"
    if by_time:
        return None
    if match:
        return FindingCode.WRONG_DIGITS, f"the name has {len(match[1])} digits instead of {_DIGITS}"
    return FindingCode.NAME_NOT_A_NUMBER, f"the name must be {_DIGITS} digits and {expected}"


def _extensions(metadata: TableMetadata | None) -> frozenset[str]:
    """Return the extensions that the table's data files can have."""
    if metadata is None or not metadata.is_delimited_text:
        return frozenset({"parquet"})
    declared = str((metadata.raw or {}).get("fileextension") or "csv").lstrip(".")
    return frozenset({declared, f"{declared}.gz", f"{declared}.zst"})
