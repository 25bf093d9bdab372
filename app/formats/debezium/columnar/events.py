"""Decodes the parts of all events of a body except for their images.

A body is decoded without its schemas (`schemas`) and without its images, which `images` decodes table by table.
Envelopes with and without a schema are read, as elements themselves or as the values of records with a key, and nulls
are counted. Flattened rows and other events that change no row are left to the exact path.

Invariant: what is read is what the exact path reads. Every quote outside images belongs to a decoded key or text.
"""

from collections.abc import Mapping, Sequence
from types import GenericAlias
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import asdict

from app.domain.model.source_name import SourceName
from app.domain.model.written_number import keep_minus_zeros
from app.domain.rows.shaped_changes import ChangeFacts
from app.errors import RejectedInput
from app.formats.debezium.columnar.schemas import CutBody, NotPlain, cut_schemas
from app.formats.debezium.connect_schema import ConnectField
from app.formats.debezium.events import IGNORED_SCHEMAS
from app.formats.debezium.records import INTERNAL_KEYS, row_schema
from app.formats.debezium.source_block import source_position, source_table, source_time
from app.formats.json.decoder import MessageDecoder
from app.formats.json.framing import DECODE_ERRORS
from app.formats.json.quote_accounting import is_all_decoded
from app.formats.json.texts import has_suspicious_escape

Value = TypeVar("Value")

_Scalar: TypeAlias = str | int | bool | UnsetType | None
_Text: TypeAlias = str | UnsetType | None
_Image: TypeAlias = Raw | UnsetType


class Source(msgspec.Struct, gc=False, forbid_unknown_fields=True):
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


class _Transaction(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    id: _Scalar = UNSET
    total_order: _Scalar = UNSET
    data_collection_order: _Scalar = UNSET


class _Event(msgspec.Struct, gc=False, forbid_unknown_fields=True, kw_only=True):
    before: _Image = UNSET
    after: _Image = UNSET
    source: Source
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
    """A form of elements: whether they have a key, and whether their events have a schema."""

    decoder: MessageDecoder[Any]
    is_keyed: bool
    has_schema: bool


def _form(message: Any, *, is_keyed: bool, has_schema: bool) -> _Form:
    element = GenericAlias(_Keyed, (message | None,)) if is_keyed else message
    element_type: Any = element | None
    return _Form(MessageDecoder(element_type), is_keyed, has_schema)


_EVENT_WITH_SCHEMA: Final[Any] = GenericAlias(_WithSchema, (_Event | None,))
_FORMS: Final = (
    _form(_EVENT_WITH_SCHEMA, is_keyed=False, has_schema=True),
    _form(_EVENT_WITH_SCHEMA, is_keyed=True, has_schema=True),
    _form(_Event, is_keyed=False, has_schema=False),
    _form(_Event, is_keyed=True, has_schema=False),
)
_KeyValues: TypeAlias = dict[str, str | int | bool | None] | None
_KEYS_WITH_SCHEMA: Final = msgspec.json.Decoder(list[_WithSchema[_KeyValues]])
_KEYS: Final = msgspec.json.Decoder(list[_KeyValues])
_ENCODER: Final = msgspec.json.Encoder()


class EventColumns(NamedTuple):
    """Events of one table in order, by part; images are bytes, UNSET where an event does not have one."""

    operations: Sequence[str]
    before: Sequence[_Image]
    after: Sequence[_Image]
    position: str | None
    """The source position of the last event that has one."""
    sources: Sequence[Source]
    content: bytes
    """The body that the events are from, without its schemas."""

    def facts(self) -> ChangeFacts | None:
        """Return the facts of the events; None if a zero may be written -0."""
        blocks = [*map(_members, self.sources)]
        if any(0 in block.values() for block in blocks) and keep_minus_zeros(self.content) is not self.content:
            return None
        return ChangeFacts([*map(source_position, blocks)], [*map(source_time, blocks)])


class EventPart(NamedTuple):
    """The events of a body for one source table that have the same schema and key."""

    source: SourceName | None
    row: ConnectField | None
    """The fields of the row, if the events have a schema."""
    keys: tuple[str, ...] | None
    """The key columns that the records name; None without a key."""
    columns: EventColumns


class EventBody(NamedTuple):
    """What a body has for each table, how many elements it has, and how many of them are tombstones."""

    parts: Sequence[EventPart]
    messages: int
    ignored: int


def decode_events(body: bytes, keyed: bool | None) -> EventBody:
    """Return the events of a body; `keyed` is the parameter of the request. Raises NotPlain."""
    cut = cut_schemas(body)
    if any(schema.meaning.endswith(IGNORED_SCHEMAS) for schema in cut.schemas):
        raise NotPlain
    elements, form = _decoded(cut.content, keyed)
    written_again = _ENCODER.encode(elements) if cut.content.startswith(b"[") else _ENCODER.encode_lines(elements)
    if not is_all_decoded(cut.content, written_again):
        raise NotPlain
    events: list[Any] = elements
    key_names: list[tuple[str, ...] | None] = [None] * len(elements)
    numbers = 0
    if form.is_keyed:
        if None in elements:
            raise NotPlain
        key_names, numbers = _key_names([element.key for element in elements])
        events = [element.value for element in elements]
    schemas: list[int | None] = [None] * len(events)
    if form.has_schema:
        schemas = [None if event is None else event.schema for event in events]
        events = [None if event is None else event.payload for event in events]
    if numbers + sum(number is not None for number in schemas) != cut.cuts:
        raise NotPlain  # a number was written, or a schema is in another place
    found = [at for at, event in enumerate(events) if event is not None]
    if not found:
        raise NotPlain
    if len(found) < len(events):
        events, schemas = [events[at] for at in found], [schemas[at] for at in found]
        key_names = [key_names[at] for at in found]
    parts = _parts(events, schemas, key_names, cut)
    return EventBody(parts, len(elements), len(elements) - len(found))


def _decoded(content: bytes, keyed: bool | None) -> tuple[list[Any], _Form]:
    """Return the elements of a body that all have one form."""
    for form in _FORMS:
        if keyed in {None, form.is_keyed} and (elements := form.decoder.decode_well_formed(content)):
            return elements, form
    raise NotPlain


def _key_names(written: Sequence[Raw]) -> tuple[list[tuple[str, ...] | None], int]:
    """Return the columns that each key names, and how many keys have a schema."""
    document = b"[" + b",".join(written) + b"]"
    if has_suspicious_escape(document):
        raise NotPlain
    has_schema = b'"payload"' in document
    try:
        keys: list[Any] = (_KEYS_WITH_SCHEMA if has_schema else _KEYS).decode(document)
    except DECODE_ERRORS:
        raise NotPlain from None
    if not is_all_decoded(document, _ENCODER.encode(keys)):
        raise NotPlain
    numbers = 0
    if has_schema:
        numbers = sum(key.schema is not None for key in keys)
        keys = [key.payload for key in keys]
    names = [() if key is None else tuple(key) for key in keys]
    if any(name.startswith(INTERNAL_KEYS) for distinct in {*names} for name in distinct):
        raise NotPlain
    return [*names], numbers


def _parts(
    events: Sequence[_Event],
    schemas: Sequence[int | None],
    key_names: Sequence[tuple[str, ...] | None],
    cut: CutBody,
) -> Sequence[EventPart]:
    """Return the events by table, schema and key, in order of first appearance."""
    sources = [event.source for event in events]
    named = ([source.db for source in sources], [source.schema for source in sources], [one.table for one in sources])
    told: tuple[Sequence[Any], ...] = (*named, schemas, key_names)
    if all(values.count(values[0]) == len(events) for values in told):
        return [_part(events, (schemas[0], key_names[0]), cut)]
    indexes: dict[tuple[Any, ...], list[int]] = {}
    for at, of_event in enumerate(zip(*told, strict=True)):
        indexes.setdefault(of_event, []).append(at)
    return [_part([events[at] for at in chosen], of_event[-2:], cut) for of_event, chosen in indexes.items()]


def _part(events: Sequence[_Event], told: tuple[int | None, tuple[str, ...] | None], cut: CutBody) -> EventPart:
    number, names = told
    if number is not None and not 0 <= number < len(cut.schemas):
        raise NotPlain
    try:
        source = source_table(_members(events[0].source))
    except RejectedInput:
        raise NotPlain from None
    row = None if number is None else row_schema(cut.schemas[number])
    operations = [event.op for event in events]
    images = ([event.before for event in events], [event.after for event in events])
    blocks = [event.source for event in events]
    columns = EventColumns(operations, *images, _position(events, cut.content), blocks, cut.content)
    return EventPart(source, row, names, columns)


def _position(events: Sequence[_Event], content: bytes) -> str | None:
    """Return the source position of the last event that has one."""
    for event in reversed(events):
        members = _members(event.source)
        if 0 in members.values() and keep_minus_zeros(content) is not content:
            raise NotPlain  # a zero may be written -0
        if (position := source_position(members)) is not None:
            return position
    return None


def _members(source: Source) -> Mapping[str, Any]:
    return {name: value for name, value in asdict(source).items() if value is not UNSET}
