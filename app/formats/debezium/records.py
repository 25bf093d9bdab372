"""Bodies of Debezium events -> records: key, operation and images as they are written, and the table they name.

Nothing of a table is needed here. `messages` reads the values of a record once its table is known. `source_table` and
`source_log_position` read the block `source` of an event: the table that changed, and the position in the source's log.

Invariant: an event that changes no row is counted, never dropped silently; a tombstone that can be the only sign of a
delete, among flattened rows or without other events in a request for a table, is rejected unless the request says what
it means. One that means a delete names its row, or is rejected.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict

from msgspec import UNSET

from app.domain.model.change import (
    UNLIMITED,
    InputLimits,
    LogPosition,
    Operation,
    SourceTime,
    log_position,
    sortable,
    sortable_file,
)
from app.domain.model.dead_letter import is_kept
from app.domain.model.names import SourceName, is_bounded
from app.formats.debezium.connect_schema import ConnectField, read_schema
from app.formats.debezium.events import (
    NO_VALUE,
    EventForm,
    WrongEvent,
    form_of,
    marks_delete,
    read_key,
    unwrap,
    with_null,
)
from app.formats.debezium.values import PLAIN_READING, DebeziumReading, Tombstones
from app.formats.json.decoder import MessageDecoder
from app.formats.json.texts import split
from mirrorgate.errors import Code, Problem, RejectedInput

_POSITION: Final = (
    "gtid",
    "file",
    "pos",
    "row",
    "lsn",
    "commit_lsn",
    "change_lsn",
    "event_serial_no",
    "scn",
    "commit_scn",
    "vgtid",
    "snapshot",
)
"""Members that make the position, in this order: MySQL, Postgres, SQL Server, Oracle, Vitess."""

_TIMES: Final = ("ts_ns", "ts_us", "ts_ms")
"""Members that have the time, the most exact one first."""

_NO_SNAPSHOT: Final = ("false", False)


def source_table(source: Mapping[str, Any]) -> SourceName | None:
    """Return the table as `schema.table`, or `database.table` where the source has no schemas.

    None if the block names no table. Raises RejectedInput `bad_name`.
    """
    table = _text(source, "table")
    if table is None:
        return None
    schema = _text(source, "schema") or _text(source, "db") or _text(source, "keyspace")
    return SourceName.of(None, schema, table)


def source_connector(source: Mapping[str, Any]) -> str | None:
    """Return the kind of the connector, such as `postgresql`; None if the block does not tell it."""
    return _text(source, "connector")


def source_position(source: Mapping[str, Any]) -> str | None:
    """Return the position as one string, such as `lsn=24023128 snapshot=last`; None if the block has none.

    A string longer than an index takes is left out: positions are for people, and no rule reads them.
    """
    parts = [
        f"{name}={'true' if value is True else value}"
        for name in _POSITION
        if isinstance(value := source.get(name), str | int)
        and value != ""
        and not (name == "snapshot" and value in _NO_SNAPSHOT)
    ]
    text = " ".join(parts)
    return text if text and is_bounded(text) else None


def source_log_position(source: Mapping[str, Any]) -> LogPosition | None:
    """Return where the change is in the log of the source, as the connector orders its events.

    None for rows of a snapshot, and where positions cannot be compared: docs/reference/source-order.md.
    """
    if source.get("snapshot") not in (None, "", *_NO_SNAPSHOT):
        return None
    read = _LOGS.get(str(source.get("connector")))
    return None if read is None else read(source)


def _log_position(operation: Operation, source: Mapping[str, Any]) -> LogPosition | None:
    """Return where a change is in the log.

    A connector for Postgres that starts again during an incremental snapshot marks changes of its log as of a snapshot,
    too. A row of a snapshot is an `r` there, or flattened without its operation.
    """
    if operation is Operation.SNAPSHOT:
        return None
    is_of_log = operation is not Operation.MERGE and source.get("connector") == "postgresql"
    return source_log_position({**source, "snapshot": None} if is_of_log else source)


def _postgres_position(source: Mapping[str, Any]) -> LogPosition | None:
    """Return the position by the last commit before the transaction: changes of one have the order of their LSNs.

    The LSN alone does not sort, because transactions follow one another in the order of their commits.
    """
    found = _SEQUENCE.fullmatch(str(source.get("sequence")))
    if found is None:
        return None
    last_commit = sortable(found[1] or found[2] or 0)
    return log_position(("postgresql", source.get("name"), source.get("db")), last_commit, sortable(source.get("lsn")))


def _mysql_position(source: Mapping[str, Any]) -> LogPosition | None:
    file = sortable_file(source.get("file"))
    if file is None:
        return None
    log = ("mysql", source.get("name"), source.get("server_id"), file[0])
    return log_position(log, file[1], sortable(source.get("pos")), sortable(source.get("row") or 0))


def _sql_server_position(source: Mapping[str, Any]) -> LogPosition | None:
    log = (source.get("connector"), source.get("name"), source.get("db"))
    lsns = (sortable(source.get("commit_lsn")), sortable(source.get("change_lsn")))
    return log_position(log, *lsns, sortable(source.get("event_serial_no") or 0), shared=False)


def _oracle_position(source: Mapping[str, Any]) -> LogPosition | None:
    """Return the position by commit; several transactions can have one commit SCN, in an order that no SCN tells."""
    commit = sortable(source.get("commit_scn"))
    log = ("oracle", source.get("name"), source.get("db"))
    return log_position(log, commit, sortable(source.get("scn")), unclear=len(commit or ""))


_LOGS: Final[Mapping[str, Callable[[Mapping[str, Any]], LogPosition | None]]] = {
    "postgresql": _postgres_position,
    "mysql": _mysql_position,
    "mariadb": _mysql_position,
    "sqlserver": _sql_server_position,
    "db2": _sql_server_position,
    "oracle": _oracle_position,
}
"""By connector: what reads the position."""

_SEQUENCE: Final = re.compile(r'\[\s*(?:null|"(\d+)"|(\d+))\s*,.*\]', re.ASCII | re.DOTALL)
"""The member `sequence` of Postgres: the LSN of the last commit, and that of the change."""


def source_time(source: Mapping[str, Any]) -> SourceTime:
    """Return when the source made the change, in the smallest unit that the block has."""
    for name in _TIMES:
        time = source.get(name)
        if isinstance(time, str | int) and not isinstance(time, bool):
            return time
    return None


class Transaction(TypedDict):
    """The transaction of a change, and the number of the change in it."""

    transaction_id: str | None
    transaction_order: int | None


def transaction_of(told: Any, source: Mapping[str, Any]) -> Transaction:
    """Return the transaction as the event tells it with transaction metadata, else the number that its block has."""
    if isinstance(told, dict) and isinstance(identity := told.get("id"), str) and is_bounded(identity):
        order = told.get("total_order")
        return {"transaction_id": identity, "transaction_order": order if _is_number(order) else None}
    number = source.get("txId")
    is_told = number not in (None, "") and (_is_number(number) or (isinstance(number, str) and is_bounded(number)))
    return {"transaction_id": str(number) if is_told else None, "transaction_order": None}


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _text(source: Mapping[str, Any], name: str) -> str | None:
    value = source.get(name)
    return value if isinstance(value, str) and value else None


OPERATIONS: Final = {
    "c": Operation.INSERT,
    "r": Operation.SNAPSHOT,
    "u": Operation.UPDATE,
    "d": Operation.DELETE,
}
_TRUNCATED: Final = "the source truncated the table, and mirroring cannot"
_NO_KEY_COLUMNS: Final = (
    "this tombstone names no row to delete, because its key has no columns: send the key as an object of the key "
    "columns, or give tombstones=ignore"
)
INTERNAL_KEYS: Final = "__dbz__"
"""Prefix of key fields that a transformation of Debezium adds, such as ByLogicalTableRouter."""

_DECODER: Final[MessageDecoder[Any]] = MessageDecoder(
    Any, images=["/before", "/after", "/payload/before", "/payload/after"]
)


@dataclass(frozen=True, slots=True)
class RecordKey:
    """The key of a Kafka record, by column."""

    values: Mapping[str, Any]
    schema: ConnectField | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the key, in its order; empty if the source table has no key."""
        return tuple(self.values) if self.schema is None else tuple(self.schema.by_name)


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """One change of a row as it is written."""

    index: int
    operation: Operation
    source: SourceName | None
    """The table that the event names."""
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    before_at: str
    after_at: str
    position: str | None = None
    position_at: str | None = None
    key: RecordKey | None = None
    """None without a key, or for one that names no columns."""
    row: ConnectField | None = None
    """The fields of the row, if the event has a schema."""
    is_flattened: bool = False
    is_tombstone: bool = False
    time: SourceTime = None
    """Time at which the source made the change."""
    connector: str | None = None
    """The kind of the connector, if the event tells it."""
    log_position: LogPosition | None = None
    extracted: SourceTime = None
    """Time at which the connector read the change."""
    transaction_id: str | None = None
    transaction_order: int | None = None


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A wrong event that is set aside, with the table that it names."""

    index: int
    source: SourceName | None
    problems: tuple[Problem, ...]


@dataclass(slots=True)
class DebeziumRecords:
    """The records of a body in order; `ignored` counts events that change no row, and tombstones."""

    records: list[ChangeRecord] = field(default_factory=list)
    ignored: int = 0
    rejected: list[RejectedRecord] = field(default_factory=list)


def decode_debezium(
    body: bytes,
    reading: DebeziumReading = PLAIN_READING,
    limits: InputLimits = UNLIMITED,
    *,
    keep_rejected: bool = False,
    names_table: bool = False,
) -> DebeziumRecords:
    """Read a JSON body. Raises RejectedInput naming every wrong event.

    With `keep_rejected`, wrong events that can become dead letters are set aside instead. `names_table` says that the
    request names the table of events without a source, so that a tombstone can be a delete.
    """
    decoded = DebeziumRecords()
    problems: list[Problem] = []
    tombstones: list[tuple[int, str]] = []
    marks_deletes = False
    for index, element in enumerate(_DECODER.decode(body, limits)):
        try:
            written_key, value, value_at = split(index, with_null(element, reading.keyed), reading.keyed)
            payload, schema, payload_at = unwrap(value)
            at = value_at + payload_at
            if payload is None:
                record = _deleted(index, written_key) if reading.tombstones is Tombstones.DELETE else None
                if written_key is not UNSET:
                    tombstones.append((index, at))
            else:
                record = read_event(index, payload, schema, written_key, at)
                marks_deletes = marks_deletes or (record is not None and marks_delete(payload))
            if record is None:
                decoded.ignored += 1
            else:
                decoded.records.append(record)
        except WrongEvent as wrong:
            marks_deletes = marks_deletes or marks_delete(payload)
            beside = value_at if wrong.code is Code.BAD_SCHEMA else at
            found = (Problem(wrong.code, wrong.detail, index, beside + wrong.pointer),)
            if keep_rejected and is_kept(found):
                decoded.rejected.append(RejectedRecord(index, _source_of(payload), found))
            else:
                problems.extend(found)
        except RejectedInput as error:
            problems.extend(error.problems or (Problem(error.code, error.detail, index, ""),))
    can_be_deletes = not marks_deletes and bool(decoded.records or decoded.rejected or names_table)
    if can_be_deletes and reading.tombstones is None:
        problems.extend(_unclear(index, at) for index, at in tombstones)
    if problems:
        raise RejectedInput.of(tuple(sorted(problems, key=lambda problem: problem.index or 0)))
    return decoded


def read_event(
    index: int, payload: Any, schema: Mapping[str, Any] | None, written_key: Any = UNSET, at: str = ""
) -> ChangeRecord | None:
    """Return the record of one event, None for one that changes no row. `at` is the JSON Pointer of the payload.

    Raises WrongEvent, or RejectedInput `bad_name`.
    """
    if not isinstance(payload, dict):
        raise WrongEvent(Code.MALFORMED_MESSAGE, "an event must be an object or null")
    form = form_of(payload, schema)
    if form is EventForm.IGNORED:
        return None
    fields = None if schema is None else read_schema(schema)
    key = _key(written_key)
    return (_enveloped if form is EventForm.ENVELOPE else _flattened)(index, payload, fields, key, at)


def _enveloped(
    index: int, payload: Mapping[str, Any], schema: ConnectField | None, key: RecordKey | None, at: str
) -> ChangeRecord:
    operation = _operation(payload["op"], "/op")
    source = payload.get("source")
    block = source if isinstance(source, dict) else {}
    before, after = _image(payload, "before"), _image(payload, "after")
    if operation is not Operation.DELETE and after is None:
        raise WrongEvent(Code.MALFORMED_MESSAGE, f"an event with op {payload['op']} needs after", "/after")
    return ChangeRecord(
        index,
        operation,
        source_table(block),
        before,
        after if operation is not Operation.DELETE else None,
        f"{at}/before",
        f"{at}/after",
        source_position(block),
        f"{at}/source",
        key,
        row_schema(schema),
        time=source_time(block),
        connector=source_connector(block),
        log_position=_log_position(operation, block),
        extracted=source_time(payload),
        **transaction_of(payload.get("transaction"), block),
    )


def _flattened(
    index: int, payload: Mapping[str, Any], schema: ConnectField | None, key: RecordKey | None, at: str
) -> ChangeRecord:
    """Read a row of `ExtractNewRecordState`; without `__op`, whether the row is new is unknown, so it is merged."""
    written = payload.get("__op")
    operation = Operation.MERGE if written is None else _operation(written, "/__op")
    if payload.get("__deleted") in (True, "true"):
        operation = Operation.DELETE
    is_delete = operation is Operation.DELETE
    source = source_of_row(payload)
    return ChangeRecord(
        index,
        operation,
        source_table(source),
        payload if is_delete else None,
        None if is_delete else payload,
        at,
        at,
        source_position(source),
        at,
        key,
        schema if schema is not None and schema.kind == "struct" else None,
        is_flattened=True,
        time=source_time(members_of_source(payload)),
        connector=source_connector(source),
        log_position=_log_position(operation, source),
        **transaction_of(None, source),
    )


def members_of_source(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that `ExtractNewRecordState` takes from the block `source`; `__ts_ms` is the event's time."""
    prefix = "__source_"
    return {name.removeprefix(prefix): value for name, value in payload.items() if name.startswith(prefix)}


def source_of_row(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a flattened row says about its source, in the form of the block `source`."""
    return {name[len("__") :].removeprefix("source_"): value for name, value in payload.items() if name[:2] == "__"}


def _deleted(index: int, written_key: Any) -> ChangeRecord:
    """Return the delete that a tombstone means. Raises WrongEvent `missing_key` if its key names no row."""
    key = _key(written_key)
    if key is None or not key.values:
        raise WrongEvent(Code.MISSING_KEY, _NO_KEY_COLUMNS)
    return ChangeRecord(
        index, Operation.DELETE, None, key.values, None, "", "", key=key, is_flattened=True, is_tombstone=True
    )


def _operation(written: Any, pointer: str) -> Operation:
    if written == "t":
        raise WrongEvent(Code.TRUNCATE_UNSUPPORTED, _TRUNCATED, pointer)
    operation = OPERATIONS.get(written) if isinstance(written, str) else None
    if operation is None:
        raise WrongEvent(Code.BAD_OP, f"{pointer[1:]} must be c, r, u or d", pointer)
    return operation


def _image(payload: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return an image; an empty one, as Arcion writes it, is none."""
    image = payload.get(name)
    if image is not None and not isinstance(image, dict):
        raise WrongEvent(Code.MALFORMED_MESSAGE, "an image must be an object or null", f"/{name}")
    return image or None


def row_schema(schema: ConnectField | None) -> ConnectField | None:
    """Return the fields of the row: those of `after`, as `before` can have the key only."""
    inner = {} if schema is None else schema.by_name
    row = inner.get("after") or inner.get("before")
    return row if row is not None and row.kind == "struct" and row.fields else None


def _key(written: Any) -> RecordKey | None:
    """Return the key of a record by column; a null key, as NO_VALUE, says that the source table has none."""
    if written is UNSET:
        return None
    payload, schema, _ = unwrap(read_key(written))
    if payload is None or payload == NO_VALUE:
        return RecordKey({})
    if not isinstance(payload, dict):
        return None
    try:
        fields = None if schema is None else read_schema(schema)
    except WrongEvent:
        fields = None  # the schema of the row has the same columns
    values = {name: value for name, value in payload.items() if not name.startswith(INTERNAL_KEYS)}
    return RecordKey(values, fields if fields is not None and fields.names == payload.keys() == values.keys() else None)


def _source_of(payload: Any) -> SourceName | None:
    """Return the table that a wrong event names. Raises RejectedInput `bad_name`."""
    if not isinstance(payload, dict):
        return None
    source = payload.get("source")
    return source_table(source if isinstance(source, dict) else source_of_row(payload))


def _unclear(index: int, at: str) -> Problem:
    detail = (
        "it is unclear whether this tombstone is the only sign of a delete: give tombstones=delete if the connector "
        "turns deletes into tombstones, else tombstones=ignore"
    )
    return Problem(Code.BAD_REQUEST, detail, index, at)
