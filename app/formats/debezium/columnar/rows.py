"""Flattened rows of `ExtractNewRecordState`: what the fields that it adds say of each change.

A row is decoded twice: here for these fields alone, which lead to its table, and as an image of that table, where every
quote is accounted for.

Invariant: what is read is what `records` reads, or NotColumnar is raised.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from app.domain.model.change import Operation
from app.domain.model.source_name import SourceName
from app.errors import RejectedInput
from app.formats.debezium.columnar.sources import SourceMembers
from app.formats.debezium.events import METADATA
from app.formats.debezium.records import OPERATIONS, members_of_source, source_of_row
from app.formats.debezium.source_block import source_table
from app.formats.json.framing import DECODE_ERRORS
from app.formats.not_columnar import NotColumnar

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
    """What rows say of their changes, in order; an operation that is none is None."""

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
    """Return the fields of a row that are no columns, unless its table has them."""
    [decoded] = _decoded([row])
    return tuple(name for name in decoded if METADATA.fullmatch(name))


def row_members(written: Sequence[Raw]) -> Sequence[SourceMembers]:
    """Return what rows say of their source. Raises NotColumnar."""
    return [(source_of_row(row), members_of_source(row)) for row in _decoded(written)]


def _decoded(written: Sequence[Raw]) -> Sequence[dict[str, Any]]:
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
