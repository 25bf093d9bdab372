"""Read many records of a flat schema together, column by column, with NumPy.

An Avro library takes most of its time to find out, for each value of each record, which type comes next. All records of
a schema have the same types in the same order, so here each type is read from all records at once: the positions in the
records are an array, and each type moves them on. Values are those of `DecodePlan` in the style TEXT, except that
fractions are exact decimals, as the decoder of JSON makes them.

Invariant: `read` gives the values that `DecodePlan` gives, or None; then the records are read one by one. Each record
has to end exactly where its bytes do.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from app.domain.model.written_values import fraction
from app.formats.avro import values
from app.formats.avro.plan import ENCODE
from app.formats.avro.tree import Node, meaning_of, scale_of


class RecordColumns:
    """The columns of a record type, by field; `present` has the places of the records that are not null."""

    def __init__(self, columns: "Mapping[str, FieldValues]", present: Sequence[int] | None = None) -> None:
        self.columns = columns
        self.present = present
        """None: all."""


FieldValues: TypeAlias = list[Any] | RecordColumns
"""Values of a field, one for each record; None for null."""

_Positions: TypeAlias = npt.NDArray[np.int64]
_PADDING: Final = bytes(16)
_MAX_VARINT_BYTES: Final = 10
_MASKS: Final = frozenset({"columnMask", "changeMask"})


class _Unusual(Exception):
    """The records are read one by one."""


def is_flat(node: Node) -> bool:
    """Return True if records of this type can be read together: no lists and maps, and one type beside null."""
    if node.kind == "union":
        return len(node.not_null) == 1 and len(node.children) <= 2 and is_flat(node.not_null[0])
    return node.kind not in ("array", "map", "null") and all(is_flat(field.type) for field in node.fields)


class FlatReader:
    """Reader of records of a flat schema."""

    def __init__(self, schema: Node) -> None:
        self._schema = schema

    def read(self, payloads: Sequence[bytes]) -> RecordColumns | None:
        """Return the columns of these records, None if one of them is not of the schema, or unusual."""
        ends = np.cumsum([len(payload) for payload in payloads], dtype=np.int64)
        content = b"".join(payloads)
        run = _Run(content)
        try:
            found, at = run.record(self._schema, np.concatenate(([0], ends[:-1])).astype(np.int64))
        except (_Unusual, UnicodeDecodeError, ValueError, ArithmeticError):
            return None
        return found if bool((at == ends).all()) else None


class _Run:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._bytes = np.frombuffer(content + _PADDING, np.uint8)

    def record(self, node: Node, at: _Positions) -> tuple[RecordColumns, _Positions]:
        columns: dict[str, FieldValues] = {}
        for field in node.fields:
            columns[field.name], at = self._column(field.type, at, field.name)
        return RecordColumns(columns), at

    def _column(self, node: Node, at: _Positions, name: str) -> tuple[FieldValues, _Positions]:
        if node.kind == "union":
            return self._optional(node, at, name)
        if node.kind == "record":
            return self.record(node, at)
        return self._values(node, at, name)

    def _optional(self, node: Node, at: _Positions, name: str) -> tuple[FieldValues, _Positions]:
        branch, at = self._numbers(at)
        if ((branch < 0) | (branch >= len(node.children))).any():
            raise _Unusual
        [inner] = node.not_null
        if len(node.children) == 1:
            return self._column(inner, at, name)
        present = np.flatnonzero(branch == node.children.index(inner))
        if len(present) == len(at):
            return self._column(inner, at, name)
        places = present.tolist()
        found, after = self._column(inner, at[present], name)
        at[present] = after
        if isinstance(found, RecordColumns):
            if found.present is not None:
                raise _Unusual
            return RecordColumns(found.columns, places), at
        column: list[Any] = [None] * len(at)
        for place, value in zip(places, found, strict=True):
            column[place] = value
        return column, at

    def _values(self, node: Node, at: _Positions, name: str) -> tuple[list[Any], _Positions]:
        match node.kind:
            case "int" | "long":
                numbers, at = self._numbers(at)
                convert = _of_numbers(node)
                return (numbers.tolist() if convert is None else [*map(convert, numbers.tolist())]), at
            case "boolean":
                flags = self._taken(at, 1)[:, 0]
                if (flags > 1).any():
                    raise _Unusual
                return (flags == 1).tolist(), at + 1
            case "float" | "double":
                size = 4 if node.kind == "float" else 8
                numbers = self._taken(at, size).view(f"<f{size}")[:, 0]
                return [*map(_exact, numbers.astype(np.float64).tolist())], at + size
            case "string":
                texts, at = self._parts(*self._numbers(at))
                column = [text.decode() for text in texts]
                if "\0" in "".join(column):
                    raise _Unusual
                return column, at
            case "bytes":
                parts, at = self._parts(*self._numbers(at))
                return [*map(_of_bytes(node, name), parts)], at
            case "fixed":
                parts, at = self._parts(np.full(len(at), node.properties["size"], np.int64), at)
                return [*map(_of_bytes(node, name), parts)], at
        symbols: list[str] = node.properties["symbols"]
        numbers, at = self._numbers(at)
        if ((numbers < 0) | (numbers >= len(symbols))).any():
            raise _Unusual
        return [symbols[number] for number in numbers.tolist()], at

    def _numbers(self, at: _Positions) -> tuple[_Positions, _Positions]:
        """Return a number from each record, and the positions after it."""
        first = self._bytes[at]
        written, at = (first & 0x7F).astype(np.uint64), at + 1
        open_ = np.flatnonzero(first > 0x7F)
        for place in range(1, _MAX_VARINT_BYTES):
            if not len(open_):
                break
            more = self._bytes[at[open_]]
            written[open_] |= (more & 0x7F).astype(np.uint64) << np.uint64(7 * place)
            at[open_] += 1
            open_ = open_[more > 0x7F]
        if len(open_) or (at > len(self._content)).any():
            raise _Unusual
        return (written >> np.uint64(1)).astype(np.int64) ^ -(written & np.uint64(1)).astype(np.int64), at

    def _parts(self, lengths: _Positions, at: _Positions) -> tuple[list[bytes], _Positions]:
        if ((lengths < 0) | (lengths > len(self._content) - at)).any():
            raise _Unusual
        ends, content = at + lengths, self._content
        return [content[start:end] for start, end in zip(at.tolist(), ends.tolist(), strict=True)], ends

    def _taken(self, at: _Positions, size: int) -> npt.NDArray[np.uint8]:
        if (at > len(self._content) - size).any():
            raise _Unusual
        taken: npt.NDArray[np.uint8] = self._bytes[at[:, None] + np.arange(size)]
        return taken


def _exact(number: float) -> Decimal | str:
    written = values.finite(number)
    return written if isinstance(written, str) else fraction(ENCODE(written).decode())


def _of_numbers(node: Node) -> Callable[[int], Any] | None:
    meaning = meaning_of(node)
    return values.temporal(meaning) if meaning in values.TEMPORAL else None


def _of_bytes(node: Node, name: str) -> Callable[[bytes], Any]:
    meaning = meaning_of(node)
    if meaning == "decimal":
        return values.decimal_of(scale_of(node.properties))
    if meaning == "uuid":
        return values.uuid_text
    return values.digits if name in _MASKS else values.hexadecimal
