"""Decodes the parts of all events of a body except for their images.

A body is decoded without its schemas (`schemas`) and without its images, which `images` decodes table by table.
Envelopes with and without a schema are read, as elements themselves or as the values of records with a key, and nulls
are counted. Flattened rows and other events that change no row are left to the exact path.

Invariant: what is read is what the exact path reads. Every quote outside images belongs to a decoded key or text.
"""

from collections.abc import Sequence
from types import GenericAlias
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from app.domain.model.source_name import SourceName
from app.domain.rows.shaped_changes import ChangeFacts
from app.formats.debezium.columnar.schemas import CutBody, NotPlain, cut_schemas
from app.formats.debezium.columnar.sources import facts_of, last_position, tables_of
from app.formats.debezium.connect_schema import ConnectField
from app.formats.debezium.events import IGNORED_SCHEMAS
from app.formats.debezium.records import INTERNAL_KEYS, row_schema
from app.formats.json.decoder import MessageDecoder
from app.formats.json.framing import DECODE_ERRORS
from app.formats.json.quote_accounting import is_all_decoded
from app.formats.json.texts import has_suspicious_escape

Value = TypeVar("Value")

_Scalar: TypeAlias = str | int | bool | UnsetType | None
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
    sources: Sequence[Raw]
    content: bytes
    """The body that the events are from, without its schemas."""

    def facts(self) -> ChangeFacts | None:
        """Return the facts of the events; None if only the exact path can read them."""
        return facts_of(self.sources, self.content)


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
    told: tuple[Sequence[Any], ...] = (tables_of(sources), schemas, key_names)
    if all(values.count(values[0]) == len(events) for values in told):
        return [_part(events, sources, tuple(values[0] for values in told), cut)]
    indexes: dict[tuple[Any, ...], list[int]] = {}
    for at, of_event in enumerate(zip(*told, strict=True)):
        indexes.setdefault(of_event, []).append(at)
    return [
        _part([events[at] for at in chosen], [sources[at] for at in chosen], of_event, cut)
        for of_event, chosen in indexes.items()
    ]


def _part(events: Sequence[_Event], sources: Sequence[Raw], told: tuple[Any, ...], cut: CutBody) -> EventPart:
    number: int | None
    source, number, names = told
    if number is not None and not 0 <= number < len(cut.schemas):
        raise NotPlain
    row = None if number is None else row_schema(cut.schemas[number])
    operations = [event.op for event in events]
    images = ([event.before for event in events], [event.after for event in events])
    position = last_position(sources, cut.content)
    return EventPart(source, row, names, EventColumns(operations, *images, position, sources, cut.content))
