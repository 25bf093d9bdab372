"""The canonical change: one row event, of every tool, and the limits of a request of them.

A change has its position in the source's log, as strings that sort, and what the source says of its progress: its time,
the tool's own lag, and Arcion's counts of operations. Whether Arcion's `operationcount` counts per table is not
documented, so a jump counts as lost messages only once the counts of a table have grown by one for each change for a
while (docs/contribute/decisions/0078-operation-counts.md).
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from app.domain.model.written_values import JSON_ENCODER
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.exceptions import pointer_to

SEPARATOR: Final = "\u001f"
"""Between the name of a log or task and a partition: a control character, which no partition has."""

_MAX_LOG_BYTES: Final = 512
_DIGITS: Final = 20
"""Of a number of 64 bits, so that strings sort as the numbers do."""

_NUMBER: Final = re.compile(r"\d{1,20}", re.ASCII)
_HEX_PARTS: Final = re.compile(r"[0-9A-Fa-f]{1,16}(?:[:/][0-9A-Fa-f]{1,16}){1,2}", re.ASCII)
_FILE: Final = re.compile(r"(.+)\.(\d{1,20})", re.ASCII | re.DOTALL)


_WITHOUT_HEX: Final = dict.fromkeys(map(ord, "0123456789abcdefABCDEF"), "0")


class LogPosition(NamedTuple):
    """The position of a change in its source's log. Positions of different logs are never compared."""

    log: str
    """The name of the log; empty where the source task names it."""
    position: str
    """Sorts as the log does."""
    shared: bool = False
    """True if several changes can have the position."""
    unclear: int = 0
    """Characters of two positions that, if they are equal, leave open which change was first."""

    def is_unclear(self, other: str) -> bool:
        """Return True if the order of this position and another one of the log is unknown."""
        return self.unclear > 0 and self.position[: self.unclear] == other[: self.unclear]


def sortable(value: object) -> str | None:
    """Return a number of a log as a string that sorts: an integer, or hexadecimal parts such as `16/B374D848`.

    None for anything else.
    """
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        return None
    if _NUMBER.fullmatch(text):
        return text.zfill(_DIGITS)
    if _HEX_PARTS.fullmatch(text):
        return "".join(f"{int(part, 16):0{_DIGITS}}" for part in re.split("[:/]", text))
    return None


def comparable(values: Sequence[Any]) -> Sequence[Any] | None:
    """Return values that sort as the strings of `sortable` do; None where only these tell."""
    kinds = {*map(type, values)}
    if kinds == {int}:
        return values if min(values) >= 0 else None
    if kinds != {str}:
        return None
    texts: Sequence[str] = values
    if all(map(str.isdigit, texts)) and all(map(str.isascii, texts)):
        return [*map(int, texts)]
    form = texts[0].translate(_WITHOUT_HEX), len(texts[0])
    alike = all((text.translate(_WITHOUT_HEX), len(text)) == form for text in texts)
    return [*map(str.lower, texts)] if alike and sortable(texts[0]) is not None else None


def sortable_file(name: object) -> tuple[str, str] | None:
    """Return the base name of a log file such as `binlog.000003`, and its number as a string that sorts."""
    found = _FILE.fullmatch(name) if isinstance(name, str) else None
    return None if found is None else (found[1], found[2].zfill(_DIGITS))


def log_position(
    log: tuple[object, ...], *numbers: str | None, shared: bool = True, unclear: int = 0
) -> LogPosition | None:
    """Return the position that these sortable numbers make in a log, None if one is missing.

    The parts of `log` name it. A long name is cut and told apart by its digest.
    """
    if None in numbers:
        return None
    name = " ".join("" if part is None else str(part) for part in log).replace(SEPARATOR, " ").replace("\0", " ")
    written = name.encode(errors="replace")
    if len(written) > _MAX_LOG_BYTES:
        name = f"{written[:64].decode(errors='replace')} {sha256(written).hexdigest()}"
    return LogPosition(name, "".join(filter(None, numbers)), shared, unclear)


SourceValue: TypeAlias = str | int | bool | Decimal | dict[str, Any] | list[Any] | None
"""A column value as the source gave it. Numbers never pass through float; containers only as JSON."""

Image: TypeAlias = dict[str, SourceValue]
"""Values at one side of a change, by column. An absent column was not given; None is SQL NULL."""


SourceTime: TypeAlias = str | int | None
"""Time at which the source made a change, as it was written: a string, or seconds or smaller units since 1970."""


class Operation(StrEnum):
    """The operation on the row. *Upsert* means that the source cannot tell insert from update.

    A *merge* is an upsert of the columns that it gives: in a row that exists, the others keep their values.
    """

    INSERT = "insert"
    SNAPSHOT = "snapshot"
    UPDATE = "update"
    DELETE = "delete"
    UPSERT = "upsert"
    MERGE = "merge"


class Change(msgspec.Struct, frozen=True, gc=False):
    """One row event of one table.

    `index` is the position of the message in the request, `before_at` and `after_at` are the JSON Pointers of its
    images; all three are for error messages only. An insert has only `after`, a delete only `before`. The `before` of
    an update has at least the key, its `after` every column whose new value is known. If a delete has an `after`, the
    source wrote the row twice, and both images must have the same key.
    """

    index: int
    operation: Operation
    before: Image | None
    after: Image | None
    before_at: str
    after_at: str
    source_position: str | None = None
    source_columns: frozenset[str] | None = None
    """The columns that the source had at that time, if it told: every other column of the table lands NULL."""
    is_late: bool = False
    """True if the table may have got its other columns since: a row image that knows their values keeps them."""
    position_at: str | None = None
    """JSON Pointer of the source position, if the format has one."""
    source_time: SourceTime = None
    extracted_time: SourceTime = None
    """Time at which the tool read the change in the log of its source."""
    operation_count: int | None = None
    """Number of operations that Arcion has processed with this one."""
    transaction_id: str | None = None
    transaction_order: int | None = None
    """The number of the change in its transaction, from 1 on."""
    log_position: LogPosition | None = None
    """Position of the change in the log of its source, if it can be compared."""
    ends_transaction: bool = True
    """False where the source said that more changes of the same transaction follow."""


_MAX_CHARACTER_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class InputLimits:
    """The largest number of messages in a request, and of bytes of a string or JSON value."""

    messages: int
    value_bytes: int
    reserve: Callable[[int], None] = field(default=lambda _: None, compare=False)
    """Reserves memory for what a body becomes, in bytes in total, before it is made.

    Raises RejectedInput `body_too_large`, or TemporarilyUnavailable `overloaded`.
    """
    reserve_answer: Callable[[int], None] = field(default=lambda _: None, compare=False)
    """Reserves memory for an answer of so many bytes. Raises TemporarilyUnavailable `overloaded`."""

    def adding(self) -> "InputLimits":
        """Return limits whose `reserve` adds to what was reserved through them before."""
        held = 0

        def reserve(size: int) -> None:
            nonlocal held
            held += size
            self.reserve(held)

        return replace(self, reserve=reserve)

    def check_messages(self, count: int) -> None:
        """Raise RejectedInput `too_many_messages` if there are more messages than allowed."""
        if count > self.messages:
            raise RejectedInput(Code.TOO_MANY_MESSAGES, f"the request holds more than {self.messages} messages")


UNLIMITED: Final = InputLimits(messages=2**63, value_bytes=2**63)

OBJECT_BYTES: Final = 48
"""Bytes that are reserved for each object and list of a JSON body before it is decoded message by message."""

MAX_CELLS: Final = 2**24
"""Messages of a request times columns of its table.

Each takes about 22 bytes while the rows are typed, also if a message does not give the column; a full image takes at
least 12 bytes of JSON per column.
"""


def check_cells(messages: int, columns: int) -> None:
    """Raise RejectedInput `too_many_messages` if messages times columns exceed MAX_CELLS."""
    if messages * columns > MAX_CELLS:
        detail = f"{messages} messages of a table with {columns} columns have more than {MAX_CELLS} values"
        raise RejectedInput(Code.TOO_MANY_MESSAGES, detail)


def long_values(changes: Sequence[Change], excluded: Collection[str], max_bytes: int) -> list[Problem]:
    """Return a problem for each value longer than `max_bytes` in a column that is not `excluded`.

    This checks every value; call it only for bodies that are longer than `max_bytes` themselves.
    """
    return [
        Problem(Code.VALUE_TOO_LARGE, f"longer than {max_bytes} bytes", change.index, pointer_to(at, column), column)
        for change in changes
        for at, column, value in _values(change)
        if column not in excluded and _is_longer(value, max_bytes)
    ]


def _values(change: Change) -> Iterator[tuple[str, str, SourceValue]]:
    for at, image in ((change.before_at, change.before), (change.after_at, change.after)):
        for column, value in (image or {}).items():
            yield at, column, value


def _is_longer(value: SourceValue, max_bytes: int) -> bool:
    if isinstance(value, str):
        return len(value) > max_bytes or (
            len(value) > max_bytes // _MAX_CHARACTER_BYTES and len(value.encode("utf-8", "surrogatepass")) > max_bytes
        )
    return isinstance(value, dict | list) and len(JSON_ENCODER.encode(value)) > max_bytes


PROVEN_CHANGES: Final = 100
"""Changes in a row with consecutive counts, after which a jump means that messages are missing."""

MAX_SECONDS: Final = 10**11
MAX_MILLIS: Final = 10**14
MAX_MICROS: Final = 10**17
"""Numbers from which a time counts smaller units; the year is then between 1973 and 5138, for each unit."""

_MAX_COUNT: Final = 2**62


def seconds_of(time: SourceTime) -> float | None:
    """Return a time of the source as seconds since 1970, as `source_times` reads it; None if it is none."""
    if isinstance(time, str):
        text = time.strip()
        if not text.removeprefix("-").isdecimal():
            try:
                read = datetime.fromisoformat(text)
            except ValueError:
                return None
            return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
        time = int(text) if len(text) <= len(str(_MAX_COUNT)) else 0
    if not time or abs(time) >= 2**63:
        return None
    size = abs(time)
    if size < MAX_SECONDS:
        return float(time)
    if size < MAX_MILLIS:
        return time / 1e3
    return time / 1e6 if size < MAX_MICROS else time / 1e9


class OperationCounts(NamedTuple):
    """Arcion's counts of operations at the first and the last message of a request, and how many messages it has."""

    first: int
    last: int
    messages: int


class SourceProgress(NamedTuple):
    """The source's progress at the last change of a request."""

    committed: float | None = None
    """Time at which the source made the change, in seconds since 1970."""
    extraction_seconds: float | None = None
    """Seconds from then until the tool read it, if the tool tells."""
    counts: OperationCounts | None = None


NO_PROGRESS: Final = SourceProgress()


def progress(committed: SourceTime, extracted: SourceTime, counts: OperationCounts | None = None) -> SourceProgress:
    """Return the progress that times and counts tell."""
    made, read = seconds_of(committed), seconds_of(extracted)
    return SourceProgress(made, None if made is None or read is None else max(0.0, read - made), counts)


def progress_of(changes: Sequence[Change]) -> SourceProgress:
    """Return the progress that changes tell. Counts are those of all messages, see `counts_of`."""
    last = next((change for change in reversed(changes) if change.source_time is not None), None)
    return NO_PROGRESS if last is None else progress(last.source_time, last.extracted_time)


def counts_of(changes: Sequence[Change], set_aside: int = 0) -> OperationCounts | None:
    """Return the counts of the messages of a request for one table, with those that are set aside."""
    if not changes:
        return None
    first, last = changes[0].operation_count, changes[-1].operation_count
    return None if first is None or last is None else OperationCounts(first, last, len(changes) + set_aside)


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of a table's operations so far."""

    last: int | None = None
    """The highest count; None before the first."""
    run: int = 0
    """Changes in a row with consecutive counts."""
    missing: int = 0
    """Changes that are missing, since the table's generation began or was loaded completely."""

    @property
    def is_proven(self) -> bool:
        """True if the counts have been those of this table alone for a while."""
        return self.run >= PROVEN_CHANGES

    def then(self, counts: OperationCounts) -> "Counted":
        """Return the counts after a request. A repeat changes nothing; a count from 1 on begins again."""
        inside = counts.last - counts.first - (counts.messages - 1)
        if self.last is None or counts.first == 1 or inside < 0:
            begun = self.last if inside < 0 and self.last is not None else 0
            return replace(self, last=max(begun, counts.last), run=counts.messages if inside == 0 else 0)
        if counts.last <= self.last:
            return self
        gap = max(0, counts.first - self.last - 1) + inside
        run = min(counts.last - self.last, counts.messages)
        if gap == 0:
            return replace(self, last=counts.last, run=min(self.run + run, PROVEN_CHANGES))
        missing = gap if self.is_proven else 0
        return Counted(counts.last, run if inside == 0 else 0, self.missing + missing)


NOT_COUNTED: Final = Counted()
