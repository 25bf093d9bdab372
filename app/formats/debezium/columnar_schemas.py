"""Parts that repeat in the events of a body, decoded once: Connect schemas, and blocks `source`.

`cut_schemas` cuts the Connect schemas out of a body. JsonConverter repeats the schema in each event, and it takes five
times the bytes of the payload. The same schema is written with the same bytes, so it is read once; finding it again
compares bytes, without decoding them.

`CutBody` has the number of a schema in each place of that schema. Invariant: its content means what the body means with
the schema in each place of its number. A schema that follows `"schema":` begins with a brace, so in valid JSON that is
a key and not the end of a string; and a JSON value in place of another leaves JSON valid or not. A body that has such a
number itself is declined, so each one that an event names was put in place of a schema; and if events name as many as
were put, each schema was that of an event.

`tables_of` reads the table that each block `source` names, and `facts_of` what else the blocks say of their changes. A
block takes as long to decode as the row of its event, and next to nothing of it is needed. Those of one table differ in
digits: so the first one is decoded, and the others are compared with it without their digits (performance notebook).
Invariant: a block that is not decoded has the members of the first one, and names its table.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import asdict, astuple, fields

from app.domain.model.change import SourceTime, comparable
from app.domain.model.names import SourceName
from app.domain.model.written_values import keep_minus_zeros
from app.domain.rows.row_rules import ChangeFacts, LogRun
from app.domain.rows.source_order import run_of
from app.formats.columnar import NotColumnar, is_uniform
from app.formats.debezium.connect_schema import ConnectField, read_schema
from app.formats.debezium.events import MONGODB, WrongEvent
from app.formats.debezium.records import source_log_position, source_position, source_table, source_time, transaction_of
from app.formats.json.framing import DECODE_ERRORS
from app.formats.json.quote_accounting import is_all_decoded, is_all_read
from app.formats.json.texts import MAX_NESTED_VALUES, count_brackets, has_suspicious_escape
from mirrorgate.errors import RejectedInput

_Scalar: TypeAlias = str | int | bool | UnsetType | None
_Text: TypeAlias = str | UnsetType | None

_DIGITS: Final = b"0123456789"
_ENCODER: Final = msgspec.json.Encoder()


class _Block(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The block `source` as the connectors for Postgres, MySQL, MariaDB, SQL Server, Oracle and Db2 write it."""

    version: _Scalar = UNSET
    connector: _Scalar = UNSET
    name: _Scalar = UNSET
    ts_ms: _Scalar = UNSET
    snapshot: _Scalar = UNSET
    db: _Text = UNSET
    sequence: _Scalar = UNSET
    ts_us: _Scalar = UNSET
    ts_ns: _Scalar = UNSET
    schema: _Text = UNSET
    table: _Text = UNSET
    txId: _Scalar = UNSET
    lsn: _Scalar = UNSET
    xmin: _Scalar = UNSET
    origin: _Scalar = UNSET
    origin_lsn: _Scalar = UNSET
    server_id: _Scalar = UNSET
    gtid: _Scalar = UNSET
    file: _Scalar = UNSET
    pos: _Scalar = UNSET
    row: _Scalar = UNSET
    thread: _Scalar = UNSET
    query: _Scalar = UNSET
    change_lsn: _Scalar = UNSET
    commit_lsn: _Scalar = UNSET
    event_serial_no: _Scalar = UNSET
    scn: _Scalar = UNSET
    commit_scn: _Scalar = UNSET
    lcr_position: _Scalar = UNSET
    rs_id: _Scalar = UNSET
    ssn: _Scalar = UNSET
    redo_thread: _Scalar = UNSET
    user_name: _Scalar = UNSET
    redo_sql: _Scalar = UNSET
    row_id: _Scalar = UNSET
    start_scn: _Scalar = UNSET
    start_ts_ms: _Scalar = UNSET
    commit_ts_ms: _Scalar = UNSET
    txSeq: _Scalar = UNSET


_DECODER: Final = msgspec.json.Decoder(list[_Block])


def tables_of(written: Sequence[Raw]) -> Sequence[SourceName | None]:
    """Return the table that each block names, one object for equal ones. Raises NotColumnar."""
    [first] = _decoded(written[:1])
    if _are_alike(written, first):
        return [_table(first)] * len(written)
    blocks = _decoded(written)
    named = [(block.db, block.schema, block.table) for block in blocks]
    known = {names: _table(block) for names, block in zip(named, blocks, strict=True)}
    return [*map(known.__getitem__, named)]


SourceMembers: TypeAlias = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Members of an event about its source: those that make the position, and those that have the time."""

ReadMembers: TypeAlias = Callable[[Sequence[Raw]], Sequence[SourceMembers]]
"""Reads what events say of their source from their blocks, or from flattened rows. Raises NotColumnar."""


def block_members(written: Sequence[Raw]) -> Sequence[SourceMembers]:
    """Return the members of blocks. Raises NotColumnar."""
    blocks = [*map(_given, _decoded(written))]
    return [*zip(blocks, blocks, strict=True)]


class LastTold(NamedTuple):
    """The last source position of some events, and the last source time with the place of its event."""

    position: str | None = None
    time: SourceTime = None
    at: int = -1


def last_told(written: Sequence[Raw], content: bytes, read: ReadMembers) -> LastTold:
    """Return what the last event that has it says. Raises NotColumnar if a zero may be written -0.

    `content` is the body that the events are from.
    """
    (position, time, at), last = LastTold(), len(written) - 1
    for start, end in ((last, last + 1), (0, last)):  # usually, the last one has both
        members = _with_known_zeros(read(written[start:end]), content)
        for place in reversed(range(start, end)):
            block, times = members[place - start]
            position = source_position(block) if position is None else position
            if time is None and (time := source_time(times)) is not None:
                at = place
            if position is not None and time is not None:
                return LastTold(position, time, at)
    return LastTold(position, time, at)


def facts_of(
    written: Sequence[Raw], content: bytes, read: ReadMembers, transactions: Sequence[Any]
) -> ChangeFacts | None:
    """Return position, time and transaction of each change; None if only the exact path can read them.

    `transactions` are what the envelopes say of theirs.
    """
    try:
        members = _with_known_zeros(read(written), content)
    except NotColumnar:
        return None
    told = [transaction_of(own, each) for own, (each, _) in zip(transactions, members, strict=True)]
    return ChangeFacts(
        [source_position(each) for each, _ in members],
        [source_time(times) for _, times in members],
        [each["transaction_id"] for each in told],
        [each["transaction_order"] for each in told],
    )


def run_in_log(written: Sequence[Raw], content: bytes, read: ReadMembers) -> LogRun | None:
    """Return the positions of changes in one log; None if one has none, or only the exact path can read it."""
    try:
        run = _run_of_blocks(written) if read is block_members else None
        if run is not None:
            return run
        members = _with_known_zeros(read(written), content)
    except NotColumnar:
        return None
    found = [source_log_position(each) for each, _ in members]
    return run_of(found, [source_time(times) for _, times in members])


class _LogBlock(msgspec.Struct, gc=False):
    """Facts about the log in blocks of the connectors for Postgres and MySQL; `tables_of` has checked all members."""

    ts_ns: _Scalar = None
    ts_us: _Scalar = None
    ts_ms: _Scalar = None
    connector: _Scalar = None
    name: _Scalar = None
    snapshot: _Scalar = None
    db: _Scalar = None
    server_id: _Scalar = None
    file: _Scalar = None
    sequence: _Scalar = None
    lsn: _Scalar = None
    pos: _Scalar = None
    row: _Scalar = None


_LOG_DECODER: Final = msgspec.json.Decoder(list[_LogBlock])
_SEQUENCES: Final = msgspec.json.Decoder(list[tuple[str, str]])
_BLOCK_MEMBERS: Final = [field.name for field in fields(_LogBlock)]
_OF_A_LOG: Final = ("connector", "name", "snapshot")


def _run_of_blocks(written: Sequence[Raw]) -> LogRun | None:
    """Return the positions of blocks as columns; None where each has to be read. Raises NotColumnar."""
    first, last = (source_log_position(_given(block)) for block in _decoded([written[0], written[-1]]))
    if first is None or last is None or first.log != last.log:
        raise NotColumnar
    try:
        blocks = _LOG_DECODER.decode(b"[" + b",".join(written) + b"]")
        columns = dict(zip(_BLOCK_MEMBERS, zip(*map(astuple, blocks), strict=True), strict=True))
        names: tuple[str, ...]
        if columns["connector"][0] == "postgresql":
            names, numbers = ("db",), [_last_commits(columns["sequence"]), comparable(columns["lsn"])]
        else:
            names, numbers = ("server_id", "file"), [comparable(columns["pos"]), comparable(columns["row"])]
    except DECODE_ERRORS:
        return None
    if None in numbers or not is_uniform(map(columns.__getitem__, _OF_A_LOG + names)):
        return None
    times = next((columns[name] for name in ("ts_ns", "ts_us", "ts_ms") if None not in columns[name]), None)
    return None if times is None else LogRun(first, last, [*zip(*filter(None, numbers), strict=True)], times)


def _last_commits(sequences: Sequence[Any]) -> Sequence[int] | None:
    """Return the first numbers of the members `sequence` of Postgres."""
    found = _SEQUENCES.decode("[" + ",".join(sequences) + "]") if {*map(type, sequences)} == {str} else []
    commits = [commit for commit, _ in found]
    return [*map(int, commits)] if commits and all(map(str.isdecimal, commits)) else None


def _decoded(written: Sequence[Raw]) -> list[_Block]:
    document = b"[" + b",".join(written) + b"]"
    try:
        blocks = _DECODER.decode(document)
    except DECODE_ERRORS:
        raise NotColumnar from None
    if not is_all_decoded(document, _ENCODER.encode(blocks)) or any(block.connector == MONGODB for block in blocks):
        raise NotColumnar
    return blocks


def _are_alike(written: Sequence[Raw], first: _Block) -> bool:
    """Return True if all blocks, which are valid JSON, have the members of the first one and name its table.

    Without their digits they are equal. A name can differ in digits, so the members that name the table are counted;
    none can be hidden in a string, which has no quote without a backslash.
    """
    template = bytes(written[0]).translate(None, _DIGITS)
    if b"\\u" in template:
        return False  # without its digits, an escape can mean anything
    if _ENCODER.encode(MONGODB) in template:
        return False  # another block can have the connector of the first one without its digits
    document = b",".join(written)
    if document.translate(None, _DIGITS) != b",".join([template] * len(written)):
        return False
    naming = {"table": first.table, "schema": first.schema} | ({} if first.schema else {"db": first.db})
    return all(
        document.count(_ENCODER.encode({name: text})[1:-1]) == len(written)
        for name, text in naming.items()
        if isinstance(text, str)
    )


def _table(block: _Block) -> SourceName | None:
    try:
        return source_table(_given(block))
    except RejectedInput:
        raise NotColumnar from None


def _with_known_zeros(members: Sequence[SourceMembers], content: bytes) -> Sequence[SourceMembers]:
    if any(0 in part.values() for each in members for part in each) and keep_minus_zeros(content) is not content:
        raise NotColumnar
    return members


def _given(block: _Block) -> Mapping[str, Any]:
    return {name: value for name, value in asdict(block).items() if value is not UNSET}


_SCHEMA: Final = b'"schema":'
_PAYLOAD: Final = b'"payload":'
_BLANKS: Final = b" \t\r\n"
_NUMBER: Final = b"7" * 17
"""First digits of numbers in schemas, two before their end: 0.15 µs to count in an event, other digits 0.28."""

_FIRST: Final = int(_NUMBER + b"00")
_MAX_SCHEMAS: Final = 64
"""Schemas of one body; each is looked for at each place where the one before it is not."""

_MAX_SCHEMA_BYTES: Final = 2**16
_MAX_CACHED: Final = 256


class CutBody(NamedTuple):
    """A body with the number of a schema in the place of each schema."""

    content: bytes
    schemas: Sequence[ConnectField]
    cuts: int
    """Number of schemas that were replaced."""

    def schema_of(self, number: int | None) -> ConnectField | None:
        """Return the schema that was replaced by a number, None for None. Raises NotColumnar for another number."""
        if number is None:
            return None
        if not _FIRST <= number < _FIRST + len(self.schemas):
            raise NotColumnar
        return self.schemas[number - _FIRST]

    def count(self, numbers: Sequence[int | None]) -> int:
        """Return how many schemas were replaced by these numbers. Raises NotColumnar for another number."""
        for number in {*numbers}:
            self.schema_of(number)
        return len(numbers) - numbers.count(None)


class _Known(NamedTuple):
    """A schema of a body, as it is written and as it is replaced."""

    written: bytes
    number: bytes
    brackets: int
    size: int


_NONE: Final = _Known(b"none", b"", 0, 0)


def cut_schemas(body: bytes) -> CutBody:
    """Return a body without its schemas. Raises NotColumnar for one that JsonConverter does not write."""
    schemas = _Schemas(body)
    parts: list[bytes] = []
    schema = _NONE
    copied = brackets = 0
    key = _key_of(body)
    place = body.find(key)
    while place >= 0:
        start = place + len(key) - 1
        if not body.startswith(schema.written, start):
            schema = schemas.at(start)
        parts += (body[copied:start], schema.number)
        brackets += schema.brackets
        copied = start + schema.size
        place = body.find(key, copied)
    parts.append(body[copied:])
    content, cuts = b"".join(parts), len(parts) // 2
    if cuts and content.count(_NUMBER) != cuts:
        raise NotColumnar
    if brackets + len(content) > MAX_NESTED_VALUES and brackets + count_brackets(content) > MAX_NESTED_VALUES:
        raise NotColumnar
    return CutBody(content, schemas.fields, cuts)


def _key_of(body: bytes) -> bytes:
    """Return the key of a schema and the brace after it as the first event has them; a long string is found faster."""
    start = body.find(_SCHEMA) + len(_SCHEMA)
    return _SCHEMA + (b" {" if body.startswith(b" ", start) else b"{")


class _Schemas:
    """The schemas of one body, in order of first appearance."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._known: list[_Known] = []
        self.fields: list[ConnectField] = []

    def at(self, start: int) -> _Known:
        """Return the schema that is written here; in an event, the payload follows it. Raises NotColumnar."""
        for schema in self._known:
            if self._body.startswith(schema.written, start):
                return schema
        end = self._body.find(_PAYLOAD, start, start + _MAX_SCHEMA_BYTES)
        written = self._body[start:end].rstrip(_BLANKS)
        if end < 0 or not written.endswith(b",") or len(self._known) == _MAX_SCHEMAS:
            raise NotColumnar
        written = written[:-1].rstrip(_BLANKS)
        self.fields.append(_checked_schema(written))
        schema = _Known(written, b"%d" % (_FIRST + len(self._known)), count_brackets(written), len(written))
        self._known.append(schema)
        return schema


@lru_cache(_MAX_CACHED)
def _checked_schema(schema: bytes) -> ConnectField:
    """Return a schema that hides nothing. Raises NotColumnar."""
    try:
        decoded: Any = msgspec.json.decode(schema)
        if is_all_read(schema, [decoded]) and not has_suspicious_escape(schema):
            return read_schema(decoded)
    except (WrongEvent, *DECODE_ERRORS):
        pass
    raise NotColumnar
