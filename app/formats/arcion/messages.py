"""Arcion's internal CDC format and its NATIVE format as JSON: messages -> changes (docs/reference/arcion.md).

All values are strings without types. The string `null` is SQL NULL where `exists` is not 0. `exists` says for each
column which image has it: 0 none, 1 after, 2 before, 3 both.

`AddressResolver` finds the source table that the `TableAddress` of a message names, and counts wrong hashes beside its
name.

`rows_and_messages` finds bare rows among Arcion's messages: in NATIVE, a snapshot message is the row alone, without a
table or an operation. The request says which table they are for. The same body may have messages of changes, as the
same topic has.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from app.domain.model.change import (
    UNLIMITED,
    Change,
    Image,
    InputLimits,
    LogPosition,
    Operation,
    SourceTime,
    log_position,
    sortable,
    sortable_file,
)
from app.domain.model.dead_letter import RejectedMessage, is_kept
from app.domain.model.names import SourceName, TableName
from app.domain.model.written_values import JSON_ENCODER
from app.formats.json.decoder import MessageDecoder, raw_messages
from app.formats.json.framing import DECODE_ERRORS
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.exceptions import pointer_to

DEFAULT_SCHEMA: Final = "default_schema"


class Namespace(msgspec.Struct, gc=False):
    """Catalog and schema of a table address, with the hash of both."""

    catalog: str | UnsetType | None = UNSET
    schema: str | UnsetType | None = UNSET
    hash: int | UnsetType | None = UNSET


class TableAddress(msgspec.Struct, gc=False):
    """The `tableName` of a message."""

    name: str
    namespace: Namespace | UnsetType | None = UNSET
    hash: int | UnsetType | None = UNSET


_Key: TypeAlias = tuple[str | None, str | None, str]


class AddressResolver:
    """Resolver of the addresses of one request, each once. With an `override`, every message is for that table."""

    def __init__(self, override: TableName | None = None) -> None:
        self._override = override
        self._known: dict[_Key, tuple[SourceName, int, int]] = {}
        self.wrong_hashes = 0

    def look_up(self, given: TableAddress) -> SourceName:
        """Return the source table of an address, and count wrong hashes. Raises RejectedInput `bad_name`."""
        space = given.namespace
        catalog, schema = (space.catalog or None, space.schema or None) if space else (None, None)
        key = (catalog, schema, given.name)
        if key not in self._known:
            self._known[key] = (self._source(*key), *address_hashes(*key))
        source, space_hash, table_hash = self._known[key]
        if (given.hash and given.hash != table_hash) or (space and space.hash and space.hash != space_hash):
            self.wrong_hashes += 1
        return source

    def _source(self, catalog: str | None, schema: str | None, name: str) -> SourceName:
        """Return `schema.name`, `catalog.name` if the schema is null or the default one, or `name` alone."""
        return _source(catalog, schema, name) if self._override is None else SourceName.address(self._override)


@lru_cache
def _source(catalog: str | None, schema: str | None, name: str) -> SourceName:
    if schema is None or schema == DEFAULT_SCHEMA:
        return SourceName.of(None, catalog, name)
    return SourceName.of(catalog, schema, name)


@lru_cache
def address_hashes(catalog: str | None, schema: str | None, name: str) -> tuple[int, int]:
    """Return the hashes of a namespace and of a table in it, as Replicant computes them: Java's `Objects.hash`."""
    space = 31 * (31 + java_hash(catalog)) + java_hash(schema)
    return _wrapped(space), _wrapped(31 * (31 + space) + java_hash(name))


def java_hash(text: str | None) -> int:
    """Return Java's `String.hashCode` over UTF-16 code units; 0 for null."""
    result = 0
    units = (text or "").encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return _wrapped(result)


def _wrapped(number: int) -> int:
    """Return a number as a signed 32-bit one."""
    return (number + 2**31) % 2**32 - 2**31


REMEDY: Final = (
    "If it is a snapshot row of `replication-format: NATIVE`, name its table: `?table=...&mode=snapshot`. Send rows "
    "without change data capture to `POST /v1/changes/rows`. Otherwise compare it with `ArcionMessage` in /redoc."
)
_ROWS: Final = MessageDecoder(dict[str, Any])
_OF_A_MESSAGE: Final = frozenset({"tableName", "opType"})
OPERATION_KEY: Final = b'"opType"'
"""Key that a body without messages of changes does not have, unless a row has it."""

_AT: Final = ""
"""JSON Pointer of the row: it has no images."""

_UNNAMED: Final = "`tableName`"


def rows_and_messages(body: bytes, limits: InputLimits) -> list[tuple[Image | None, bytes]]:
    """Return the bare rows of a body; for a message of a change None, and the message as it is written.

    Raises RejectedInput for what is not a JSON object.
    """
    rows = _ROWS.decode(body, limits)
    if not any(row.keys() >= _OF_A_MESSAGE for row in rows):
        return [(row, b"") for row in rows]
    return [
        (None, written) if row.keys() >= _OF_A_MESSAGE else (row, b"")
        for row, written in zip(rows, raw_messages(body), strict=True)
    ]


def snapshot_row(index: int, row: Image) -> Change:
    """Return the change that a row is, whose text `null` is None already."""
    return Change(index, Operation.SNAPSHOT, None, row, _AT, _AT)


def at_index(error: RejectedInput, index: int) -> RejectedInput:
    """Return the rejection of a message that was decoded alone, with its index in the body."""
    problems = tuple(replace(problem, index=index) for problem in error.problems)
    return RejectedInput.of(problems, remedy=error.remedy) if problems else error


def with_remedy(error: RejectedInput) -> RejectedInput:
    """Return the rejection of a message without a table with what a bare row needs."""
    if error.code is Code.MALFORMED_MESSAGE and error.problems and _UNNAMED in error.detail:
        return RejectedInput.of(error.problems, remedy=REMEDY)
    return error


OPERATIONS: Final = {
    "I": Operation.INSERT,
    "U": Operation.UPDATE,
    "D": Operation.DELETE,
    "R": Operation.UPSERT,
}
FLAGS: Final[Mapping[str | int, int]] = {"0": 0, "1": 1, "2": 2, "3": 3, 0: 0, 1: 1, 2: 2, 3: 3}
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


_DECODER: Final = MessageDecoder(ArcionMessage, images=["/before", "/after", "/exists"])


def decode_arcion(
    body: bytes,
    table: TableName | None = None,
    limits: InputLimits = UNLIMITED,
    *,
    keep_rejected: bool = False,
    rows_of: TableName | None = None,
    is_snapshot: bool = False,
) -> ArcionChanges:
    """Return the changes of a JSON body in order; with `table`, all of them are for that table.

    With `rows_of`, any other object is a snapshot row of that table. With `is_snapshot`, the body is of a
    snapshot: an insert with `exists` is a snapshot row. Raises RejectedInput naming every
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
            changes.append(AddressedChange(source, _change(index, message, is_snapshot=is_snapshot)))
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


def _change(index: int, message: ArcionMessage, *, is_snapshot: bool) -> Change:
    operation = OPERATIONS.get(message.opType)
    if operation is None:
        raise WrongMessage(Code.BAD_OP, "opType must be I, U, D or R", "/opType")
    if message.exists is None or message.exists is UNSET:
        before, after = _native_images(operation, message.before or {}, message.after or {})
    else:
        before, after = images(operation, message.before or {}, message.after or {}, message.exists)
    facts = facts_of_cursor(message.cursor)
    is_row = is_snapshot and operation is Operation.INSERT and bool(message.exists)
    return Change(
        index=index,
        operation=Operation.SNAPSHOT if is_row else operation,
        before=None if operation is Operation.INSERT else _with_nulls(before),
        after=None if operation is Operation.DELETE else _with_nulls(after),
        before_at="/before",
        after_at="/after",
        source_position=facts.position,
        source_time=facts.time,
        extracted_time=facts.extracted,
        log_position=None if is_row else facts.log_position,
        position_at="/cursor",
        operation_count=operation_count(message.operationcount),
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
    """Return a cursor as it was written; one that is not a string is encoded again."""
    if cursor is None or cursor is UNSET:
        return None
    return cursor if isinstance(cursor, str) else JSON_ENCODER.encode(cursor).decode()


class CursorFacts(NamedTuple):
    """The facts of a change in its cursor."""

    position: str | None
    """The cursor as it was written."""
    time: SourceTime = None
    extracted: SourceTime = None
    """Time at which Replicant read the change in the log."""
    members: Mapping[str, Any] = {}
    """The members of a cursor that is an object, named without spaces."""

    @property
    def log_position(self) -> LogPosition | None:
        """Where the change is in the log of the source; None for a cursor whose order is not known.

        Replicant's pages show the cursors of MySQL (`log`, `position`) and Cassandra (`dscId`, `mutId`). Those of other
        databases need the commit beside the change: changes of interleaved transactions do not sort without it.
        """
        given = self.members
        extractor = given.get("extractorId")
        if (file := sortable_file(given.get("log"))) is not None:
            return log_position(("arcion", extractor, file[0]), file[1], sortable(given.get("position")))
        if "dscId" in given:
            numbers = [sortable(given.get(name)) for name in ("dscId", "mutId")]
            log = ("arcion", extractor, given.get("nodeID"))
            return log_position(log, *numbers, sortable(given.get("partNum") or 0))
        for commit, change in _COMMITS:
            if commit in given:
                first = sortable(given[commit])
                unclear = len(first or "") if commit == "commitScn" else 0
                return log_position(("arcion", extractor, commit), first, sortable(given.get(change)), unclear=unclear)
        return None


def facts_of_cursor(cursor: Any) -> CursorFacts:
    """Return what a cursor says that is an object, also one in a string; of any other, its text alone."""
    position = position_of(cursor)
    if isinstance(cursor, str) and cursor.lstrip().startswith("{"):
        try:
            cursor = _DECODER_OF_CURSORS.decode(cursor)
        except DECODE_ERRORS:
            return CursorFacts(position)
    if not isinstance(cursor, dict):
        return CursorFacts(position)
    given = {name.replace(" ", ""): value for name, value in cursor.items()}  # line ends break published names
    times = (given.get("timestamp"), given.get("extractionTimestamp"))
    made, read = (time if isinstance(time, str | int) and not isinstance(time, bool) else None for time in times)
    return CursorFacts(position, made, read, given)


def operation_count(written: Any) -> int | None:
    """Return the sum of the counts in an `operationcount`, an object, also in a string; None if it is none."""
    if isinstance(written, str):
        try:
            written = _DECODER_OF_CURSORS.decode(written)
        except DECODE_ERRORS:
            return None
    counts: list[int] = [*written.values()] if isinstance(written, dict) else []
    if not counts or not all(type(count) is int and 0 <= count < _MAX_COUNT for count in counts):
        return None
    return sum(counts)


_MAX_COUNT: Final = 2**53
"""Above it, no operation was counted."""


_COMMITS: Final = (("commitLsn", "lsn"), ("commitScn", "scn"))
"""Members that have the commit and the change, of Postgres and SQL Server, and of Oracle."""


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
