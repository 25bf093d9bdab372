"""Arcion's internal CDC format and its NATIVE format as JSON: messages -> changes (docs/formats.md, "Arcion JSON").

All values are texts without types. The text `null` is SQL NULL where `exists` is not 0. `exists` says for each column
which image has it: 0 none, 1 after, 2 before, 3 both.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from app.domain.model.change import Change, Image, Operation, SourceTime
from app.domain.model.dead_letter import RejectedMessage, is_kept
from app.domain.model.input_limits import UNLIMITED, InputLimits
from app.domain.model.names import TableName
from app.domain.model.source_name import SourceName
from app.domain.model.written_number import as_json
from app.errors import Code, Problem, RejectedInput
from app.errors.json_pointer import pointer_to
from app.formats.arcion.address import AddressResolver, TableAddress
from app.formats.arcion.bare_rows import at_index, rows_and_messages, snapshot_row, with_remedy
from app.formats.json.decoder import MessageDecoder
from app.formats.json.framing import DECODE_ERRORS

OPERATIONS: Final = {
    "I": Operation.INSERT,
    "U": Operation.UPDATE,
    "D": Operation.DELETE,
    "R": Operation.UPSERT,
}
FLAGS: Final[Mapping[str | int, int]] = {"0": 0, "1": 1, "2": 2, "3": 3, 0: 0, 1: 1, 2: 2, 3: 3}
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=as_json)
_DECODER_OF_CURSORS: Final = msgspec.json.Decoder()
ALL_AFTER: Final = [{"1"}, {1}]
_ALL_BOTH: Final = [{"3"}, {3}]


class ArcionMessage(msgspec.Struct, gc=False):
    """One message as Replicant writes it, with the tool's names. UNSET means absent."""

    tableName: TableAddress
    opType: str
    exists: dict[str, str | int | None] | UnsetType | None = UNSET
    before: dict[str, Any] | UnsetType | None = UNSET
    after: dict[str, Any] | UnsetType | None = UNSET
    cursor: Any = UNSET
    operationcount: Any = UNSET


@dataclass(frozen=True, slots=True)
class AddressedChange:
    """A change and the source table that its message names."""

    source: SourceName
    change: Change


class ArcionChanges(list[AddressedChange]):
    """The changes of a body in order, and how many messages give a wrong hash of their address."""

    wrong_hashes: int = 0

    def __init__(self) -> None:
        super().__init__()
        self.rejected: list[tuple[SourceName, RejectedMessage]] = []
        """Messages that are set aside, with the source table that they name."""


_DECODER: Final = MessageDecoder(ArcionMessage)


def decode_arcion(
    body: bytes,
    table: TableName | None = None,
    limits: InputLimits = UNLIMITED,
    *,
    keep_rejected: bool = False,
    rows_of: TableName | None = None,
) -> ArcionChanges:
    """Return the changes of a JSON body in order; with `table`, all of them are for that table.

    With `rows_of`, an object that is no message is a snapshot row of that table. Raises RejectedInput naming every
    wrong message. With `keep_rejected`, wrong messages of a valid address are set aside instead.
    """
    changes = ArcionChanges()
    problems: list[Problem] = []
    addresses = AddressResolver(table)
    row_source = None if rows_of is None else SourceName.address(rows_of)
    for index, message in enumerate(_messages(body, limits, is_mixed=row_source is not None)):
        if isinstance(message, dict):
            assert row_source is not None
            changes.append(AddressedChange(row_source, snapshot_row(index, _with_nulls(message))))
            continue
        try:
            source = addresses.look_up(message.tableName)
            changes.append(AddressedChange(source, _change(index, message)))
        except WrongMessage as wrong:
            found = tuple(wrong.at(index))
            if keep_rejected and is_kept(found):
                changes.rejected.append((source, RejectedMessage(index, found)))
            else:
                problems.extend(found)
        except RejectedInput as error:
            problems.append(Problem(error.code, error.detail, index, "/tableName"))
    if problems:
        raise RejectedInput.of(tuple(problems))
    changes.wrong_hashes = addresses.wrong_hashes
    return changes


def _messages(body: bytes, limits: InputLimits, *, is_mixed: bool) -> Sequence[ArcionMessage | Image]:
    """Return the messages of a body; if it `is_mixed`, also bare rows, as objects. Raises RejectedInput."""
    if is_mixed:
        found = enumerate(rows_and_messages(body, limits))
        return [_message_at(index, written) if row is None else row for index, (row, written) in found]
    try:
        return _DECODER.decode(body, limits)
    except RejectedInput as error:
        raise with_remedy(error) from None


def _message_at(index: int, written: bytes) -> ArcionMessage:
    try:
        [message] = _DECODER.decode(written)
    except RejectedInput as error:
        raise at_index(error, index) from None
    return message


def _change(index: int, message: ArcionMessage) -> Change:
    operation = OPERATIONS.get(message.opType)
    if operation is None:
        raise WrongMessage(Code.BAD_OP, "opType must be I, U, D or R", "/opType")
    if message.exists is None or message.exists is UNSET:
        before, after = _native_images(operation, message.before or {}, message.after or {})
    else:
        before, after = images(operation, message.before or {}, message.after or {}, message.exists)
    return Change(
        index=index,
        operation=operation,
        before=None if operation is Operation.INSERT else _with_nulls(before),
        after=None if operation is Operation.DELETE else _with_nulls(after),
        before_at="/before",
        after_at="/after",
        source_position=position_of(message.cursor),
        source_time=time_of(message.cursor),
    )


def _native_images(operation: Operation, before: Image, after: Image) -> tuple[Image, Image]:
    """Return the images of a message without `exists`, as Replicant writes it with `replication-format: NATIVE`.

    A column that an image has is given there. An update keeps a key that only `before` has; any other column that
    `after` lacks is not given. Raises WrongMessage for an image that the operation cannot have.
    """
    if operation is Operation.INSERT and before:
        raise WrongMessage(Code.EXISTS_MISMATCH, "an insert cannot have a before image", "/before")
    if operation is Operation.DELETE and after:
        raise WrongMessage(Code.EXISTS_MISMATCH, "a delete cannot have an after image", "/after")
    return before, after


def images(
    operation: Operation, before: Image, after: Image, exists: Mapping[str, str | int | None]
) -> tuple[Image, Image]:
    """Return both images with the columns that `exists` says are given. Raises WrongMessage if an image disagrees."""
    flags = set(exists.values())
    if operation is Operation.INSERT and flags in ALL_AFTER and exists.keys() == after.keys():
        return {}, after
    if operation is Operation.UPDATE and flags in _ALL_BOTH and exists.keys() == after.keys() == before.keys():
        return before, after
    given_before, given_after = {}, {}
    for column, text in exists.items():
        flag = None if text is None else FLAGS.get(text)
        if flag is None:
            raise WrongMessage(Code.BAD_EXISTS, "exists must be 0, 1, 2 or 3", "/exists", [column])
        _check_flag(operation, flag, column, before, after)
        if flag & 2:
            given_before[column] = before[column]
        if flag & 1:
            given_after[column] = after[column]
        elif flag == 2 and operation is not Operation.DELETE:
            given_after[column] = before[column]  # only in WHERE: unchanged
    unlisted = [column for image in (before, after) for column in image if column not in exists]
    if unlisted:
        raise WrongMessage(Code.EXISTS_MISMATCH, "a column of an image has no entry in exists", "/exists", unlisted[:1])
    return given_before, given_after


def _check_flag(operation: Operation, flag: int, column: str, before: Image, after: Image) -> None:
    if flag & 1 and column not in after:
        raise WrongMessage(
            Code.EXISTS_MISMATCH, "exists says that the column is in after, and it is not", "/after", [column]
        )
    if flag & 2 and column not in before:
        raise WrongMessage(
            Code.EXISTS_MISMATCH, "exists says that the column is in before, and it is not", "/before", [column]
        )
    if operation is Operation.INSERT and flag & 2:
        raise WrongMessage(Code.EXISTS_MISMATCH, "an insert cannot have a before image", "/exists", [column])
    if operation is Operation.DELETE and flag == 1:
        raise WrongMessage(Code.EXISTS_MISMATCH, "a delete cannot have an after image", "/exists", [column])


def _with_nulls(image: Image) -> Image:
    if "null" not in image.values():
        return image
    return {column: None if value == "null" else value for column, value in image.items()}


def position_of(cursor: Any) -> str | None:
    """Return a cursor as it was written; one that is not a text is encoded again."""
    if cursor is None or cursor is UNSET:
        return None
    return cursor if isinstance(cursor, str) else _ENCODER.encode(cursor).decode()


def time_of(cursor: Any) -> SourceTime:
    """Return the `timestamp` in a cursor that is an object, also one in a text; None for any other cursor."""
    if isinstance(cursor, str) and cursor.lstrip().startswith("{"):
        try:
            cursor = _DECODER_OF_CURSORS.decode(cursor)
        except DECODE_ERRORS:
            return None
    time = cursor.get("timestamp") if isinstance(cursor, dict) else None
    return time if isinstance(time, str | int) and not isinstance(time, bool) else None


class WrongMessage(Exception):
    """A message that cannot become a change; `at` gives its problems once the index is known."""

    def __init__(self, code: Code, detail: str, pointer: str | None, columns: list[str] | None = None) -> None:
        super().__init__(detail)
        self._code, self._detail, self._pointer, self._columns = code, detail, pointer, columns

    def at(self, index: int, prefix: str = "") -> Iterator[Problem]:
        """Yield the problems of the message with this index, `prefix` (such as a line number) before each detail."""
        detail = prefix + self._detail
        if self._columns is None:
            yield Problem(self._code, detail, index, self._pointer)
        for column in self._columns or ():
            yield Problem(self._code, detail, index, pointer_to(self._pointer or "", column), column)
