"""Columnar reading of Arcion JSON: many bodies and messages at once, without an object per message.

A body is decoded in two steps. `decode_columnar` decodes the messages and leaves their images as bytes; it finds the
tables. `ArcionTableReader` decodes all images of one table together, into tuples of strings in the order of the table's
columns.

`MessageLayouts` works out what `exists` says about the images of a message once for all messages with the same bytes
there. `NativeImages` reads the images of NATIVE messages of one table into rows with shapes: without `exists`, the
columns of an image are given.

Invariant: the changes equal those of `decode_arcion`. Bodies and images that are unusual are left to it:
`decode_columnar` returns None for them, and the readers of images raise NotColumnar. Nothing is rejected here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain, compress
from typing import Any, Final, NamedTuple, Self, TypeAlias

import msgspec
from msgspec import UNSET, Raw

from app.domain.model.change import Operation, OperationCounts, SourceProgress, comparable, progress
from app.domain.model.names import SourceName
from app.domain.model.written_values import keep_minus_zeros
from app.domain.rows.row_rules import ChangeFacts, LogRun, Shape, ShapedChanges, Values
from app.domain.rows.source_order import run_of
from app.formats.arcion.messages import (
    ALL_AFTER,
    FLAGS,
    OPERATIONS,
    AddressResolver,
    CursorFacts,
    TableAddress,
    facts_of_cursor,
    operation_count,
    position_of,
)
from app.formats.columnar import NotColumnar, Shapes, given_columns
from app.formats.json.decoder import MessageDecoder, exact_fraction
from app.formats.json.framing import DECODE_ERRORS
from app.formats.json.quote_accounting import Given, ImageDecoder, are_opaque, count_quotes, is_all_read
from app.formats.json.texts import count_brackets, has_suspicious_escape
from mirrorgate.errors import RejectedInput

_EXISTS: Final = msgspec.json.Decoder(dict[str, str | int])
_MAX_CACHED: Final = 1_024
MAX_CACHED_BYTES: Final = 2**12
"""Bytes of a part of a message that is kept, so that blanks in it cannot fill the memory."""

_BEFORE, _AFTER = 2, 1
_FORBIDDEN: Final = {Operation.INSERT: _BEFORE, Operation.DELETE: _AFTER}
"""The flag that must not be the only one: an insert has no image before, a delete none after."""


@dataclass(frozen=True, slots=True, eq=False)
class MessageLayout:
    """The shape of a message, and where its images must have values, by column position."""

    shape: Shape
    before: Sequence[int]
    after: Sequence[int]
    unlisted: Sequence[int]
    """Columns without a flag: no image may have them."""
    ignores_before: bool
    """True if the image before the change can have any columns: nothing of an insert with plain flags is there."""

    def fits_full(self, before: object, after: object) -> bool:
        """Return True if the images that the flags name are there; each has all columns, and all columns are listed."""
        return (before is not None or not self.before) and (after is not None or not self.after)

    def fits(self, before: Sequence[object] | None, after: Sequence[object] | None) -> bool:
        """Return True if images with UNSET for what they lack have exactly what the flags say."""
        given = [before[at] for at in self.before] if before else [UNSET] * len(self.before)
        given += [after[at] for at in self.after] if after else [UNSET] * len(self.after)
        images = [image for image in (before, after) if image]
        return UNSET not in given and all(image[at] is UNSET for image in images for at in self.unlisted)


@dataclass(slots=True)
class MessageLayouts:
    """The layouts of the messages of a table with these columns, by operation and `exists`."""

    columns: Sequence[str]
    is_snapshot: bool = False
    """True if inserts are rows of a snapshot."""
    _known: dict[tuple[str, bytes], MessageLayout] = field(default_factory=dict)

    def look_up(self, operation: str, exists: Raw) -> MessageLayout:
        """Return the layout. Raises NotColumnar for flags that the exact path must reject or knows better."""
        written = (operation, bytes(exists))
        layout = self._known.get(written)
        if layout is None:
            if len(self._known) >= _MAX_CACHED:
                self._known.clear()
            layout = self._layout(*written)
            if len(exists) <= MAX_CACHED_BYTES:
                self._known[written] = layout
        return layout

    def _layout(self, text: str, exists: bytes) -> MessageLayout:
        operation, written = OPERATIONS.get(text), _EXISTS.decode(keep_minus_zeros(exists))
        if operation is None or not is_all_read(exists, [written]) or has_suspicious_escape(exists):
            raise NotColumnar
        flags = {name: FLAGS.get(flag) for name, flag in written.items()}
        if None in flags.values() or not flags.keys() <= {*self.columns}:
            raise NotColumnar
        before = frozenset(name for name, flag in flags.items() if flag and flag & _BEFORE)
        after = frozenset(name for name, flag in flags.items() if flag and flag & _AFTER)
        forbidden = _FORBIDDEN.get(operation)
        if (forbidden == _BEFORE and before) or (forbidden == _AFTER and after - before):
            raise NotColumnar
        kept = frozenset() if operation is Operation.DELETE else before - after
        is_row = self.is_snapshot and operation is Operation.INSERT and bool(flags)
        shape = Shape(
            Operation.SNAPSHOT if is_row else operation,
            None if operation is Operation.INSERT else before,
            None if operation is Operation.DELETE else after | kept,
            kept,
        )
        at = {name: position for position, name in enumerate(self.columns)}
        return MessageLayout(
            shape,
            [at[name] for name in before],
            [at[name] for name in after],
            [at[name] for name in self.columns if name not in flags],
            operation is Operation.INSERT and {*written.values()} in ALL_AFTER,
        )


_MAX_TABLES: Final = 1_024
_NOTHING: Final[frozenset[str]] = frozenset()


def is_native(exists: Given) -> bool:
    """Return True if a message has no `exists`."""
    return exists is UNSET or exists == Raw(b"null")


class NativeRows(NamedTuple):
    """The columns of messages, by message. Images have UNSET in the place of columns that are not given."""

    shapes: Sequence[Shape]
    before: Sequence[Values | None]
    after: Sequence[Values | None]


class NativeImages:
    """Reader of images of tables with these columns."""

    def __init__(self, columns: Sequence[str]) -> None:
        """Prepare. Raises ValueError for names that msgspec cannot take."""
        self._names = tuple(columns)
        self._all = frozenset(columns)
        self._images = ImageDecoder(columns, str | None)
        self._shapes = Shapes(_shape)

    def read(self, operations: Sequence[str], before: Sequence[Given], after: Sequence[Given]) -> NativeRows:
        """Return the rows and shapes of messages. Raises NotColumnar, ValueError or RecursionError."""
        before_rows, before_full = self._images.decode_optional(before)
        after_rows, after_full = self._images.decode_optional(after)
        given_before, given_after = self._given(before_rows, before_full), self._given(after_rows, after_full)
        return NativeRows(self._shapes.of(operations, given_before, given_after), before_rows, after_rows)

    def _given(self, rows: Sequence[tuple[Any, ...] | None], is_full: bool) -> Sequence[frozenset[str]]:
        """Return the columns that each image has."""
        if is_full:
            return [_NOTHING if row is None else self._all for row in rows]
        given = iter(given_columns(self._names, [row for row in rows if row is not None]))
        return [_NOTHING if row is None else next(given) for row in rows]


def _shape(text: str, before: frozenset[str], after: frozenset[str]) -> Shape:
    operation = OPERATIONS.get(text)
    if operation is None or (operation is Operation.INSERT and before) or (operation is Operation.DELETE and after):
        raise NotColumnar
    return Shape(
        operation,
        None if operation is Operation.INSERT else before,
        None if operation is Operation.DELETE else after,
    )


@lru_cache(_MAX_TABLES)
def native_images(columns: tuple[str, ...]) -> NativeImages:
    """Return the reader of tables with these columns; few tables get NATIVE messages, so it is made when one does."""
    return NativeImages(columns)


_ADDRESS: Final = msgspec.json.Decoder(TableAddress)
_ANY: Final = msgspec.json.Decoder(float_hook=exact_fraction)
_IMAGE: Final = msgspec.json.Decoder(dict[str, str | int | bool | None] | None)
_OF_AN_ADDRESS: Final = 2
"""Objects that an address consists of, or fewer."""


class _Message(msgspec.Struct, gc=False):
    tableName: Raw
    opType: str
    exists: Given = UNSET
    before: Given = UNSET
    after: Given = UNSET
    cursor: Given = UNSET
    operationcount: Given = UNSET


_DECODER: Final = MessageDecoder(_Message)

_Scalar: TypeAlias = str | int | None
_Members: TypeAlias = Sequence[Sequence[_Scalar]]


class _Cursor(msgspec.Struct, gc=False, forbid_unknown_fields=True, rename="camel"):
    """A cursor as Replicant's pages show it, of MySQL or of Cassandra."""

    timestamp: _Scalar = None
    extractor_id: _Scalar = None
    log: _Scalar = None
    position: _Scalar = None
    node: _Scalar = msgspec.field(default=None, name="nodeID")
    dsc_id: _Scalar = None
    mut_id: _Scalar = None
    part_num: _Scalar = 0
    extraction_timestamp: _Scalar = None
    log_seq_num: _Scalar = None
    slave_server_id: _Scalar = None
    v: _Scalar = None


_TEXTS: Final = msgspec.json.Decoder(list[str])
_CURSORS: Final = msgspec.json.Decoder(list[_Cursor])


class ArcionPart(NamedTuple):
    """The messages of one body for one source table, by key; images are still bytes."""

    operations: Sequence[str]
    exists: Sequence[Given]
    before: Sequence[Given]
    after: Sequence[Given]
    cursors: Sequence[Given]
    counts: Sequence[Given]


class ArcionBody(NamedTuple):
    """The messages of a body by source table, in order of first appearance."""

    parts: Sequence[tuple[SourceName, ArcionPart]]
    messages: int
    wrong_hashes: int


def decode_columnar(bodies: Sequence[bytes]) -> list[ArcionBody | None]:
    """Return the messages of each body, or None where the exact path has to read it.

    All bodies are checked together, because most of the cost of a short one is fixed.
    """
    decoded = [*map(_DECODER.decode_well_formed, bodies)]
    valid = [(body, messages) for body, messages in zip(bodies, decoded, strict=True) if messages]
    if not valid:
        return [None] * len(bodies)
    keys = [*zip(*map(msgspec.structs.astuple, chain.from_iterable(messages for _, messages in valid)), strict=True)]
    if not _hides_nothing(valid[0][0] if len(valid) == 1 else b"".join(body for body, _ in valid), keys):
        return [None] if len(bodies) == 1 else [found for body in bodies for found in decode_columnar([body])]
    found: list[ArcionBody | None] = []
    start = 0
    for messages in decoded:
        end = start + len(messages or ())
        found.append(_body([values[start:end] for values in keys]) if messages else None)
        start = end
    return found


def _body(keys: Sequence[Sequence[Any]]) -> ArcionBody | None:
    """Return the messages of a body by source; None if an address is wrong."""
    addresses, *others = keys
    count, first = len(addresses), addresses[0]
    try:
        if addresses.count(first) == count:
            source, wrong = _source(bytes(first))
            return ArcionBody(((source, ArcionPart(*others)),), count, wrong * count)
        named = [_source(bytes(address)) for address in addresses]
    except (RejectedInput, *DECODE_ERRORS):
        return None
    indexes: dict[SourceName, list[int]] = {}
    for index, (source, _) in enumerate(named):
        indexes.setdefault(source, []).append(index)
    parts = [
        (source, ArcionPart(*([values[at] for at in chosen] for values in others)))
        for source, chosen in indexes.items()
    ]
    return ArcionBody(parts, count, sum(wrong for _, wrong in named))


@dataclass(frozen=True, slots=True)
class ArcionTableReader:
    """Reader of the images of messages for tables with the same columns."""

    images: ImageDecoder
    layouts: MessageLayouts

    @classmethod
    def of(cls, columns: Sequence[str], *, is_snapshot: bool = False) -> Self:
        """Return the reader of tables with these columns. Raises ValueError for names that msgspec cannot take."""
        return cls(ImageDecoder(columns, str), MessageLayouts(columns, is_snapshot))

    def read(self, parts: Sequence[ArcionPart]) -> list[ShapedChanges]:
        """Return the changes of each part. Raises NotColumnar, ValueError or RecursionError if one cannot be read.

        All images are decoded, also those that do not land: a duplicate key in one rejects its message.
        """
        operations, exists, before, after, *_ = parts[0] if len(parts) == 1 else _together(parts)
        if any(map(is_native, exists)):
            if not all(map(is_native, exists)):
                raise NotColumnar
            return _by_part(parts, *native_images(tuple(self.layouts.columns)).read(operations, before, after))
        layouts = self._layouts(operations, exists)
        before_rows, before_full = self.images.decode_optional(_without_ignored(before, layouts))
        after_rows, after_full = self.images.decode_optional(after)
        if before_full and after_full and not any(layout.unlisted for layout in {*layouts}):
            fit = map(MessageLayout.fits_full, layouts, before_rows, after_rows)
        else:
            fit = map(MessageLayout.fits, layouts, before_rows, after_rows)
        if not all(fit):
            raise NotColumnar
        return _by_part(parts, [layout.shape for layout in layouts], before_rows, after_rows)

    def _layouts(self, operations: Sequence[str], exists: Sequence[Any]) -> list[MessageLayout]:
        first, count = exists[0], len(exists)
        if operations.count(operations[0]) == count and exists.count(first) == count:
            return [self.layouts.look_up(operations[0], first)] * count
        return [*map(self.layouts.look_up, operations, exists)]


def _by_part(
    parts: Sequence[ArcionPart],
    shapes: Sequence[Shape],
    before: Sequence[Values | None],
    after: Sequence[Values | None],
) -> list[ShapedChanges]:
    changes, start = [], 0
    for part in parts:
        own = slice(start, start := start + len(part.operations))
        is_snapshot = shapes[own] and shapes[own][0].operation is Operation.SNAPSHOT
        # A cursor that cannot have a time is not decoded: sources without times would have all decoded.
        named = (cursor for cursor in reversed(part.cursors) if b"timestamp" in bytes(cursor or b"").replace(b" ", b""))
        told = (facts for facts in map(facts_of_cursor, map(_cursor, named)) if facts.time is not None)
        changes.append(
            ShapedChanges(
                shapes[own],
                before[own],
                after[own],
                null_text=True,
                source_position=next(filter(None, map(position_of, map(_cursor, reversed(part.cursors)))), None),
                progress=_progress(part, next(told, CursorFacts(None))),
                origins=partial(_origins, part.cursors),
                log=None if is_snapshot else partial(_log_run, part.cursors),
            )
        )
    return changes


def _together(parts: Sequence[ArcionPart]) -> ArcionPart:
    return ArcionPart(*([*chain.from_iterable(values)] for values in zip(*parts, strict=True)))


def _without_ignored(before: Sequence[Given], layouts: Sequence[MessageLayout]) -> Sequence[Given]:
    """Return the images before the changes without those that do not count but must be valid."""
    are_ignored = [layout.ignores_before for layout in layouts]
    if not any(are_ignored):
        return before
    ignored = [*compress(before, are_ignored)]
    distinct = ignored[:1] if ignored.count(ignored[0]) == len(ignored) else ignored
    given = [bytes(image) for image in distinct if image is not UNSET]
    if not all((_is_known_image if len(image) <= MAX_CACHED_BYTES else _is_image)(image) for image in given):
        raise NotColumnar
    return [UNSET if is_ignored else image for image, is_ignored in zip(before, are_ignored, strict=True)]


def _is_image(written: bytes) -> bool:
    """Return True if this is an image, or null, without a column twice."""
    return is_all_read(written, [_IMAGE.decode(written)]) and not has_suspicious_escape(written)


_is_known_image: Final = lru_cache(_MAX_CACHED)(_is_image)
"""Most producers write the same image in all inserts."""


@lru_cache(_MAX_CACHED)
def _source(address: bytes) -> tuple[SourceName, int]:
    """Return the source table of an address, and the number of wrong hashes. Raises RejectedInput or ValueError."""
    if len(address) > MAX_CACHED_BYTES or count_brackets(address) > _OF_AN_ADDRESS:
        raise ValueError
    if not is_all_read(address, [_ANY.decode(address)]):
        raise ValueError
    if has_suspicious_escape(address):
        raise ValueError
    addresses = AddressResolver()
    return addresses.look_up(_ADDRESS.decode(keep_minus_zeros(address))), addresses.wrong_hashes


def _given(values: Sequence[Given]) -> list[Raw]:
    return [value for value in values if value is not UNSET]


def _distinct(values: Sequence[Raw]) -> Sequence[Raw]:
    """Return one of the values if all are written alike, which is usual, else all of them."""
    return values[:1] if values and values.count(values[0]) == len(values) else values


def _hides_nothing(bodies: bytes, keys: Sequence[Sequence[Any]]) -> bool:
    """Return True if no message has a duplicate key, a key unknown to `_Message`, or anything odd in opaque values.

    `keys` are the values of all messages of the joined bodies, by key.
    """
    addresses, operations, *others = keys
    opaque = [*map(_given, others[-2:])]
    quotes = 4 * len(operations)  # of the keys and the strings of `opType`
    for values in (addresses, *map(_given, others[:-2]), *opaque):
        distinct = _distinct(values)
        repeated = len(values) if len(distinct) == 1 else 1
        quotes += 2 * len(values) + count_quotes(b"".join(distinct)) * repeated
    try:
        return quotes == count_quotes(bodies) and all(are_opaque(values, _ANY.decode) for values in opaque)
    except DECODE_ERRORS:
        return False


def _origins(cursors: Sequence[Given]) -> ChangeFacts:
    read = _cursor_columns(cursors)
    if read is not None:
        return ChangeFacts(read.texts, [cursor.timestamp for cursor in read.cursors])
    facts = [facts_of_cursor(_cursor(cursor)) for cursor in cursors]
    return ChangeFacts([one.position for one in facts], [one.time for one in facts])


def _progress(part: ArcionPart, facts: CursorFacts) -> SourceProgress:
    first = last = operation_count(_cursor(part.counts[0]))
    if len(part.counts) > 1:
        last = operation_count(_cursor(part.counts[-1]))
    counts = None if first is None or last is None else OperationCounts(first, last, len(part.counts))
    return progress(facts.time, facts.extracted, counts)


def _log_run(cursors: Sequence[Given]) -> LogRun | None:
    """Return the positions of cursors in one log; they are read as columns where all are like the published ones."""
    first, last = (facts_of_cursor(_cursor(cursor)).log_position for cursor in (cursors[0], cursors[-1]))
    if first is None or last is None or first.log != last.log:
        return None
    read = _cursor_columns(cursors)
    if read is not None and (positions := _positions_of(read.cursors)) is not None:
        return LogRun(first, last, positions, [cursor.timestamp for cursor in read.cursors])
    facts = [facts_of_cursor(_cursor(cursor)) for cursor in cursors]
    return run_of([one.log_position for one in facts], [one.time for one in facts])


def _positions_of(cursors: Sequence[_Cursor]) -> Sequence[Any] | None:
    """Return what sorts as the positions of cursors in one log; None if they do not name one."""
    for log_of in (_log_of_mysql, _log_of_cassandra):
        names, numbers = log_of(cursors)
        found = [*map(comparable, numbers)]
        if None not in found and all(values.count(values[0]) == len(values) for values in names):
            return found[0] if len(found) == 1 else [*zip(*filter(None, found), strict=True)]
    return None


def _log_of_mysql(cursors: Sequence[_Cursor]) -> tuple[_Members, _Members]:
    """Return the members that name the log, and those that make the position.

    Written out, because `getattr` takes three times as long.
    """
    names = [cursor.extractor_id for cursor in cursors], [cursor.log for cursor in cursors]
    return names, ([cursor.position for cursor in cursors],)


def _log_of_cassandra(cursors: Sequence[_Cursor]) -> tuple[_Members, _Members]:
    names = [cursor.extractor_id for cursor in cursors], [cursor.node for cursor in cursors]
    segments, mutations = [cursor.dsc_id for cursor in cursors], [cursor.mut_id for cursor in cursors]
    return names, (segments, mutations, [cursor.part_num for cursor in cursors])


class _CursorColumns(NamedTuple):
    texts: Sequence[str]
    """The cursors as they were written."""
    cursors: Sequence[_Cursor]


def _cursor_columns(cursors: Sequence[Given]) -> _CursorColumns | None:
    """Return cursors that are all strings of published ones; None if one is missing or has any other form."""
    written: Sequence[Any] = cursors
    try:
        texts = _TEXTS.decode(b"[" + b",".join(written) + b"]")
        return _CursorColumns(texts, _CURSORS.decode("[" + ",".join(texts) + "]"))
    except (TypeError, *DECODE_ERRORS):  # TypeError: one is UNSET
        return None


def _cursor(cursor: Given) -> Any:
    return UNSET if cursor is UNSET else _ANY.decode(keep_minus_zeros(b"[" + cursor + b"]"))[0]
