"""Decode the parts of all events of a body except for their images.

`decode_events` decodes a body without its schemas (`columnar_schemas`) and without its images, which `columnar_images`
decodes table by table. Envelopes and flattened rows are read, with and without a schema, as elements themselves or as
the values of records with a key, and nulls are counted. Events that change no row are left to the exact path.

`read_rows` reads what the fields that `ExtractNewRecordState` adds to flattened rows say of each change. A row is
decoded twice: here for these fields alone, which lead to its table, and as an image of that table, where every quote is
accounted for.

Invariant: everything that is read equals what the exact path (`records`) reads, or NotColumnar is raised. Every quote
outside images belongs to a decoded key or text.
"""

from collections.abc import Callable, Sequence
from functools import partial
from types import GenericAlias
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import asdict

from app.domain.model.change import Operation, SourceProgress, SourceTime, progress
from app.domain.model.names import SourceName
from app.domain.rows.row_rules import ChangeFacts, LogRun
from app.formats.columnar import NotColumnar, is_uniform
from app.formats.debezium.columnar_schemas import (
    CutBody,
    ReadMembers,
    SourceMembers,
    block_members,
    cut_schemas,
    facts_of,
    last_told,
    run_in_log,
    tables_of,
)
from app.formats.debezium.connect_schema import ConnectField
from app.formats.debezium.events import IGNORED_SCHEMAS, METADATA
from app.formats.debezium.records import (
    INTERNAL_KEYS,
    OPERATIONS,
    members_of_source,
    row_schema,
    source_of_row,
    source_table,
    source_time,
)
from app.formats.json.decoder import MessageDecoder
from app.formats.json.framing import DECODE_ERRORS
from app.formats.json.quote_accounting import is_all_decoded
from app.formats.json.texts import has_suspicious_escape
from mirrorgate.errors import RejectedInput

_Scalar: TypeAlias = str | int | bool | UnsetType | None

_NAMING: Final = ("table", "schema", "db", "keyspace")


class _Added(msgspec.Struct, gc=False, rename=lambda name: f"__{name}"):
    """The added fields that decide on a change; a field of the block `source` can have a prefix."""

    op: _Scalar = UNSET
    deleted: _Scalar = UNSET
    table: _Scalar = UNSET
    schema: _Scalar = UNSET
    db: _Scalar = UNSET
    keyspace: _Scalar = UNSET
    source_table: _Scalar = UNSET
    source_schema: _Scalar = UNSET
    source_db: _Scalar = UNSET
    source_keyspace: _Scalar = UNSET


_DECODER: Final = msgspec.json.Decoder(list[_Added])
_ANY: Final = msgspec.json.Decoder(list[dict[str, Any]])


class FlattenedRows(NamedTuple):
    """The operations of rows, in order; an operation that is none is None."""

    tables: Sequence[SourceName | None]
    operations: Sequence[Operation | None]
    marks_deletes: bool
    """True if a row says whether it was deleted, so that a tombstone repeats what a row has said."""


def read_rows(written: Sequence[Raw]) -> FlattenedRows:
    """Return what rows say of their changes. Raises NotColumnar."""
    try:
        rows = _DECODER.decode(_document(written))
    except DECODE_ERRORS:
        raise NotColumnar from None
    named = [
        (
            *(row.table, row.schema, row.db, row.keyspace),
            *(row.source_table, row.source_schema, row.source_db, row.source_keyspace),
        )
        for row in rows
    ]
    known = {names: _table(names) for names in {*named}}
    marks_deletes = any(row.deleted is not UNSET for row in rows)
    return FlattenedRows([*map(known.__getitem__, named)], [*map(_operation, rows)], marks_deletes)


def added_fields(row: Raw) -> tuple[str, ...]:
    """Return the fields of a row that are not columns, unless its table has them."""
    [decoded] = _decoded_rows([row])
    return tuple(name for name in decoded if METADATA.fullmatch(name))


def row_members(written: Sequence[Raw]) -> Sequence[SourceMembers]:
    """Return what rows say of their source. Raises NotColumnar."""
    return [(source_of_row(row), members_of_source(row)) for row in _decoded_rows(written)]


def _decoded_rows(written: Sequence[Raw]) -> Sequence[dict[str, Any]]:
    try:
        return _ANY.decode(_document(written))
    except DECODE_ERRORS:
        raise NotColumnar from None


def _document(written: Sequence[Raw]) -> bytes:
    return b"[" + b",".join(written) + b"]"


def _operation(row: _Added) -> Operation | None:
    if isinstance(row.op, str):
        operation = OPERATIONS.get(row.op)
    else:
        operation = Operation.MERGE if row.op is UNSET or row.op is None else None
    return Operation.DELETE if operation is not None and row.deleted in (True, "true") else operation


def _table(names: tuple[_Scalar, ...]) -> SourceName | None:
    plain, prefixed = names[: len(_NAMING)], names[len(_NAMING) :]
    if any(one is not UNSET and other is not UNSET for one, other in zip(plain, prefixed, strict=True)):
        raise NotColumnar  # the later one counts
    told = [other if one is UNSET else one for one, other in zip(plain, prefixed, strict=True)]
    try:
        return source_table(dict(zip(_NAMING, told, strict=True)))
    except RejectedInput:
        raise NotColumnar from None


Value = TypeVar("Value")

_Image: TypeAlias = Raw | UnsetType


class _Transaction(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    id: _Scalar = UNSET
    total_order: _Scalar = UNSET
    data_collection_order: _Scalar = UNSET


class _Event(msgspec.Struct, gc=False, forbid_unknown_fields=True, kw_only=True):
    before: _Image = UNSET
    after: _Image = UNSET
    source: Raw
    transaction: _Transaction | UnsetType | None = UNSET
    op: str
    ts_ms: _Scalar = UNSET
    ts_us: _Scalar = UNSET
    ts_ns: _Scalar = UNSET


class _WithSchema(msgspec.Struct, Generic[Value], gc=False, forbid_unknown_fields=True):
    schema: int | None
    """The number of a schema that was cut out."""
    payload: Value


class _Keyed(msgspec.Struct, Generic[Value], gc=False, forbid_unknown_fields=True):
    key: Raw
    value: Value


class _Form(NamedTuple):
    """A form of elements: whether they have a key, whether their events have a schema, and whether these are rows."""

    decoder: MessageDecoder[Any]
    is_keyed: bool
    has_schema: bool
    is_flattened: bool = False


def _form(message: Any, *, is_keyed: bool, has_schema: bool, is_flattened: bool = False) -> _Form:
    value = message if message is Raw else message | None  # null is a Raw, too
    element: Any = GenericAlias(_Keyed, (value,)) | None if is_keyed else value
    return _Form(MessageDecoder(element), is_keyed, has_schema, is_flattened)


_EVENT_WITH_SCHEMA: Final[Any] = GenericAlias(_WithSchema, (_Event | None,))
_ROW_WITH_SCHEMA: Final[Any] = GenericAlias(_WithSchema, (Raw,))
_FORMS: Final = (
    _form(_EVENT_WITH_SCHEMA, is_keyed=False, has_schema=True),
    _form(_EVENT_WITH_SCHEMA, is_keyed=True, has_schema=True),
    _form(_Event, is_keyed=False, has_schema=False),
    _form(_Event, is_keyed=True, has_schema=False),
    _form(_ROW_WITH_SCHEMA, is_keyed=False, has_schema=True, is_flattened=True),
    _form(_ROW_WITH_SCHEMA, is_keyed=True, has_schema=True, is_flattened=True),
    _form(Raw, is_keyed=True, has_schema=False, is_flattened=True),
    _form(Raw, is_keyed=False, has_schema=False, is_flattened=True),
)
_NULL: Final = Raw(b"null")
_KeyValues: TypeAlias = dict[str, str | int | bool | None] | None
_KEYS_WITH_SCHEMA: Final = msgspec.json.Decoder(list[_WithSchema[_KeyValues]])
_KEYS: Final = msgspec.json.Decoder(list[_KeyValues])
_ENCODER: Final = msgspec.json.Encoder()


class EventColumns(NamedTuple):
    """Events of one table in order, by part; images are bytes, UNSET where an event does not have one."""

    operations: Sequence[Operation | None]
    """None for an operation that changes no row."""
    before: Sequence[_Image]
    after: Sequence[_Image]
    position: str | None
    """The source position of the last event that has one."""
    facts: Callable[[], ChangeFacts | None]
    """Returns the facts of the events; None if only the exact path can read them."""
    log: Callable[[], LogRun | None]
    """Returns the positions of the events in the log; None if they are not of one log."""
    progress: SourceProgress


class EventPart(NamedTuple):
    """The events of a body for one source table that have the same schema and key."""

    source: SourceName | None
    row: ConnectField | None
    """The fields of the row, if the events have a schema."""
    keys: tuple[str, ...] | None
    """The key columns that the records name; None without a key."""
    columns: EventColumns
    added: tuple[str, ...] | None = None
    """Of flattened rows: fields that are not columns. None for envelopes."""


class EventBody(NamedTuple):
    """Content of a body for each table, the number of its elements, and how many of them are tombstones."""

    parts: Sequence[EventPart]
    messages: int
    ignored: int
    marks_deletes: bool = True
    """True if a tombstone repeats what an event has said."""


class _Changes(NamedTuple):
    """The facts of a body's events, in order."""

    tables: Sequence[SourceName | None]
    operations: Sequence[Operation | None]
    before: Sequence[_Image]
    after: Sequence[_Image]
    sources: Sequence[Raw]
    """Objects with the position and the time: the blocks `source`, or the rows."""
    events: Sequence[_Event | None]
    """The envelopes; None for rows."""

    def at(self, chosen: Sequence[int]) -> "_Changes":
        """Return the chosen changes."""

        def of(column: Sequence[Value]) -> Sequence[Value]:
            return [column[at] for at in chosen]

        return _Changes._make(map(of, self))


def decode_events(body: bytes, keyed: bool | None) -> EventBody:
    """Return the events of a body; `keyed` is the parameter of the request. Raises NotColumnar."""
    cut = cut_schemas(body)
    if any(schema.meaning.endswith(IGNORED_SCHEMAS) for schema in cut.schemas):
        raise NotColumnar
    elements, form = _decoded(cut.content, keyed)
    written_again = _ENCODER.encode(elements) if cut.content.startswith(b"[") else _ENCODER.encode_lines(elements)
    if not is_all_decoded(cut.content, written_again):
        raise NotColumnar
    events: list[Any] = elements
    key_names: list[tuple[str, ...] | None] = [None] * len(elements)
    numbers = 0
    if form.is_keyed:
        if None in elements:
            raise NotColumnar
        key_names, numbers = _key_names([element.key for element in elements], cut)
        events = [element.value for element in elements]
    schemas: list[int | None] = [None] * len(events)
    if form.has_schema:
        schemas = [None if event is None else event.schema for event in events]
        events = [None if event is None else event.payload for event in events]
    if numbers + cut.count(schemas) != cut.cuts:
        raise NotColumnar  # a schema is in another place
    if form.is_flattened:
        events = [None if event == _NULL else event for event in events]
    found = [at for at, event in enumerate(events) if event is not None]
    if not found:
        raise NotColumnar
    if len(found) < len(events):
        events, schemas = [events[at] for at in found], [schemas[at] for at in found]
        key_names = [key_names[at] for at in found]
    changes, marks_deletes = _changes_of_rows(events) if form.is_flattened else (_changes_of_envelopes(events), True)
    parts = _parts(changes, schemas, key_names, cut, is_flattened=form.is_flattened)
    return EventBody(parts, len(elements), len(elements) - len(found), marks_deletes)


def _changes_of_envelopes(events: Sequence[_Event]) -> _Changes:
    sources = [event.source for event in events]
    operations = [OPERATIONS.get(event.op) for event in events]
    images = ([event.before for event in events], [event.after for event in events])
    return _Changes(tables_of(sources), operations, *images, sources, events)


def _changes_of_rows(rows: Sequence[Raw]) -> tuple[_Changes, bool]:
    """Return the changes of flattened rows, and whether a row says that it was deleted or not."""
    tables, operations, marks_deletes = read_rows(rows)
    deleted = [operation is Operation.DELETE for operation in operations]
    before = [row if is_deleted else UNSET for row, is_deleted in zip(rows, deleted, strict=True)]
    after = [UNSET if is_deleted else row for row, is_deleted in zip(rows, deleted, strict=True)]
    return _Changes(tables, operations, before, after, rows, [None] * len(rows)), marks_deletes


def _decoded(content: bytes, keyed: bool | None) -> tuple[list[Any], _Form]:
    """Return the elements of a body that all have one form."""
    for form in _FORMS:
        if keyed in {None, form.is_keyed} and (elements := form.decoder.decode_well_formed(content)):
            return elements, form
    raise NotColumnar


def _key_names(written: Sequence[Raw], cut: CutBody) -> tuple[list[tuple[str, ...] | None], int]:
    """Return the columns that each key names, and how many keys have a schema."""
    document = b"[" + b",".join(written) + b"]"
    if has_suspicious_escape(document):
        raise NotColumnar
    has_schema = b'"payload"' in document
    try:
        keys: list[Any] = (_KEYS_WITH_SCHEMA if has_schema else _KEYS).decode(document)
    except DECODE_ERRORS:
        raise NotColumnar from None
    if not is_all_decoded(document, _ENCODER.encode(keys)):
        raise NotColumnar
    numbers = 0
    if has_schema:
        numbers = cut.count([key.schema for key in keys])
        keys = [key.payload for key in keys]
    names = [() if key is None else tuple(key) for key in keys]
    if any(name.startswith(INTERNAL_KEYS) for distinct in {*names} for name in distinct):
        raise NotColumnar
    return [*names], numbers


def _parts(
    changes: _Changes,
    schemas: Sequence[int | None],
    key_names: Sequence[tuple[str, ...] | None],
    cut: CutBody,
    *,
    is_flattened: bool,
) -> Sequence[EventPart]:
    """Return the events by table, schema and key, in order of first appearance."""
    told: tuple[Sequence[Any], ...] = (changes.tables, schemas, key_names)
    if is_uniform(told):
        return [_part(changes, schemas[0], key_names[0], cut, is_flattened=is_flattened)]
    indexes: dict[tuple[Any, ...], list[int]] = {}
    for at, of_event in enumerate(zip(*told, strict=True)):
        indexes.setdefault(of_event, []).append(at)
    return [
        _part(changes.at(chosen), number, keys, cut, is_flattened=is_flattened)
        for (_, number, keys), chosen in indexes.items()
    ]


def _facts(changes: _Changes, content: bytes, read: ReadMembers) -> ChangeFacts | None:
    transactions = [None if event is None else event.transaction for event in changes.events]
    told = [asdict(each) if isinstance(each, _Transaction) else None for each in transactions]
    return facts_of(changes.sources, content, read, told)


def _extracted(event: _Event | None) -> SourceTime:
    """Return when the connector read the change."""
    return None if event is None else source_time({"ts_ns": event.ts_ns, "ts_us": event.ts_us, "ts_ms": event.ts_ms})


def _part(
    changes: _Changes, number: int | None, keys: tuple[str, ...] | None, cut: CutBody, *, is_flattened: bool
) -> EventPart:
    schema = cut.schema_of(number)
    read = row_members if is_flattened else block_members
    last = last_told(changes.sources, cut.content, read)
    columns = EventColumns(
        changes.operations,
        changes.before,
        changes.after,
        last.position,
        partial(_facts, changes, cut.content, read),
        partial(run_in_log, changes.sources, cut.content, read),
        progress(last.time, _extracted(changes.events[last.at])),
    )
    if not is_flattened:
        return EventPart(changes.tables[0], row_schema(schema), keys, columns)
    row = schema if schema is not None and schema.kind == "struct" else None
    return EventPart(changes.tables[0], row, keys, columns, added_fields(changes.sources[0]))
