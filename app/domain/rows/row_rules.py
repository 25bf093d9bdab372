"""The rules of one table by which its changes become rows, the shapes of these changes, and the masks of values.

`RowRules` has the rules, and `KeptByTable` keeps results that were computed from them.

`ShapedChanges` has changes of one table as tuples of values with a `Shape`, as the columnar decoders yield them. Most
changes of a body have the same few shapes. The result of a change depends on its shape, and its values only fill the
row; so the rules are applied once per shape (`app.domain.rows.row_layout`).

`Masking` masks values as soon as they are typed, so that neither row images nor payloads nor files have the originals.
"""

import hmac
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from hashlib import sha256
from threading import Lock
from typing import Any, Final, Generic, NamedTuple, Self, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.access.mask_secret import MaskSecret
from app.domain.model.change import NO_PROGRESS, LogPosition, Operation, SourceProgress, SourceTime, SourceValue
from app.domain.model.projection import Mask, MaskMethod
from app.domain.model.table import Table
from app.domain.model.table_options import DEFAULT_OPTIONS, TableOptions
from app.domain.model.table_schema import TableSchema
from mirrorgate.errors import Code, TemporarilyUnavailable

Values: TypeAlias = tuple[SourceValue, ...]
"""The values of an image in the order of the table's columns; those of columns that are not given are ignored."""


TypeColumn: TypeAlias = Callable[[Sequence[Any]], pa.Array]
"""Types the values of a column as a format writes them, None for NULL. Raises BadValues."""


class Shape(NamedTuple):
    """The shape of a change, without its values: see `Change`. Names are those of columns."""

    operation: Operation
    before: frozenset[str] | None
    """The columns that the image before the change gives; None without that image."""
    after: frozenset[str] | None
    """The columns whose value after the change is given, the `kept` ones included; None without that image."""
    kept: frozenset[str] = frozenset()
    """Columns of `after` whose value is in the image before the change only, because the change kept it."""
    source_columns: frozenset[str] | None = None
    is_late: bool = False


class ChangeFacts(NamedTuple):
    """The position and the time of each change in its source; None for one that its message does not give."""

    positions: Sequence[str | None]
    times: Sequence[SourceTime]
    transactions: Sequence[str | None] = ()
    """Empty if the format has none, as are the next."""
    transaction_orders: Sequence[int | None] = ()


class LogRun(NamedTuple):
    """Positions of a request's changes in one log of their source."""

    first: LogPosition
    last: LogPosition
    positions: Sequence[Any]
    """Sort like the strings of the positions: strings, numbers or tuples of them."""
    times: Sequence[SourceTime]


@dataclass(frozen=True, slots=True)
class ShapedChanges:
    """The ordered changes of one request for one table."""

    shapes: Sequence[Shape]
    """One per change. Changes of one shape share one object."""
    before: Sequence[Values | None]
    after: Sequence[Values | None]
    null_text: bool = False
    """True if the string `null` means NULL, as in Arcion's messages."""
    ends_transaction: bool = True
    """False if the source said that its transaction continues after the last change."""
    source_position: str | None = None
    """The source position of the last change that has one, verbatim."""
    origins: Callable[[], ChangeFacts | None] | None = field(default=None, compare=False)
    """Reads the facts of the changes, for a table that needs them; returns None where only the exact path can.

    None if the format has no such facts.
    """
    log: Callable[[], LogRun | None] | None = field(default=None, compare=False)
    """Reads the positions in the log, for a table that enforces its order.

    Returns None if a change has none or they are of several logs. None if the format has no logs.
    """
    progress: SourceProgress = field(default=NO_PROGRESS, compare=False)
    """Position of the source at the last change."""
    typed_by: Mapping[int, TypeColumn] = field(default_factory=dict, compare=False)
    """Types of the columns whose values are not source values, by position.

    Keys are never among them, and no column is if the table keeps row images. Requests that are typed together have the
    same, and only the exact path can land them if several updates change keys.
    """


@dataclass(frozen=True, slots=True)
class Masking:
    """The masks of a table, and what its hashes need.

    Invariant: within a scope, which is one table or a declared group, equal values have equal hashes in all formats
    under one secret, so a hashed key remains a key. Across scopes they differ, so that no table tells the hashes of
    another.
    """

    table: Table
    secret: MaskSecret | None = None
    """The secret of this process."""

    def arrays(self, arrays: Sequence[pa.Array], names: Sequence[str]) -> list[pa.Array]:
        """Return typed columns with these names, then other ones, with masked values.

        Raises TemporarilyUnavailable `mask_secret_missing` or `mask_secret_differs`.
        """
        return [*map(self._masked, arrays, names), *arrays[len(names) :]]

    def batch(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Do for a typed batch what `arrays` does."""
        return pa.RecordBatch.from_arrays(self.arrays(batch.columns, names), schema=batch.schema)

    def rows(
        self, rows: Sequence[Sequence[SourceValue]], masked: Sequence[pa.Array], names: Sequence[str]
    ) -> Sequence[Values]:
        """Return rows of source values with those of masked columns, for row images."""
        places = {at: masked[at].to_pylist() for at, name in enumerate(names) if name in self.table.options.masks}
        return [*self._replaced(rows, places)]

    def _replaced(
        self, rows: Sequence[Sequence[SourceValue]], places: Mapping[int, Sequence[str | None]]
    ) -> Iterator[Values]:
        for number, row in enumerate(rows):
            values = [*row]
            for at, masked in places.items():
                values[at] = masked[number]
            yield tuple(values)

    def _masked(self, array: pa.Array, name: str) -> pa.Array:
        mask = self.table.options.masks.get(name)
        if mask is None:
            return array
        if mask.method is MaskMethod.NULL:
            return pa.nulls(len(array), array.type)
        if mask.method is MaskMethod.TRUNCATE:
            return pc.utf8_slice_codeunits(array, 0, mask.characters)
        return self._hashed(array, mask)

    def _hashed(self, array: pa.StringArray, mask: Mask) -> pa.StringArray:
        """Return the keyed hashes of strings. Arrow has no kernel for them, so each distinct string is hashed once."""
        key = self._own_secret().key_of(_scope(mask, self.table))
        encoded = array.dictionary_encode()
        hashes = [hmac.digest(key, text.encode(), sha256).hex() for text in encoded.dictionary.to_pylist()]
        return pa.array(hashes, pa.string()).take(encoded.indices)

    def _own_secret(self) -> MaskSecret:
        """Return the secret of this process, if the rows of the table are hashed under it."""
        if self.secret is None:
            detail = f"table {self.table.name} has a hashed column, and this process has no secret"
            raise TemporarilyUnavailable(Code.MASK_SECRET_MISSING, detail)
        if not self.secret.made(self.table.mask_fingerprint):
            detail = f"table {self.table.name} is hashed under another secret than that of this process"
            raise TemporarilyUnavailable(Code.MASK_SECRET_DIFFERS, detail)
        return self.secret


def _scope(mask: Mask, table: Table) -> str:
    """Return what the hashes of a column share with others (decision 0071): a table is known by its number.

    The number remains over a rename, a rebuild and a recreation, and no other table ever has it.
    """
    return f"table:{table.table_id}" if mask.group is None else f"group:{mask.group}"


MAX_KEPT_COLUMNS: Final = 2**17
"""Columns of all that one cache keeps. A column of a layout takes about 200 bytes."""

_T = TypeVar("_T")


class RowMarker(IntEnum):
    """Values of `__rowMarker__`, which tells Fabric what to do with a landing row."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2
    UPSERT = 4


@dataclass(frozen=True, slots=True)
class RowRules:
    """The rules by which changes of one table become rows."""

    schema: TableSchema
    options: TableOptions = DEFAULT_OPTIONS
    left_columns: frozenset[str] = frozenset()
    """Nullable columns that the source no longer has; they are NULL if a message does not give them."""
    cdc_started: bool = False
    """True if changes other than snapshot rows were accepted before."""
    images_complete: bool = False
    """True if every row of the table has a row image, so that a key without one is new."""
    in_load: bool = False
    """True for the rows of a load session (decision 0069)."""
    from_images: bool = False
    """True for rows of row images: they were accepted, so a derived value that cannot be computed is NULL."""
    masking: Masking | None = None
    """Masks the values of a source; None if there is nothing to mask, and for values of row images."""

    @classmethod
    def of(cls, table: Table, *, in_load: bool = False) -> Self:
        """Return the rules of a table as it is now, for values that are masked already if the table has masks."""
        return cls(table.schema, table.options, table.left_columns, table.cdc_started, table.images_complete, in_load)

    @classmethod
    def of_source(cls, table: Table, mask_secret: MaskSecret | None, *, in_load: bool = False) -> Self:
        """Return the rules of a table as it is now, for values as its source has them."""
        rules = cls.of(table, in_load=in_load)
        return replace(rules, masking=Masking(table, mask_secret)) if table.options.masks else rules

    def after_start(self) -> "RowRules":
        """Return the rules once a change other than a snapshot row was accepted."""
        return replace(self, cdc_started=True)


class KeptByTable(Generic[_T]):
    """Results computed from the schema and options of tables, all discarded when there are too many.

    Schema and options are recognized by identity, because hashing them costs more than typing a small request.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[Hashable, tuple[_T, RowRules | Table]] = {}
        self._columns = 0

    def get(self, rules: RowRules | Table, key: Hashable = None) -> _T | None:
        """Return what is kept for these rules, or this table, under a key; None if nothing is."""
        found = self._kept.get((id(rules.schema), id(rules.options), key))
        return found and found[0]

    def keep(self, rules: RowRules | Table, key: Hashable, value: _T) -> _T:
        """Keep a value for these rules under a key, and return it.

        The rules are held with it, so that no other object has the identity of their schema or options.
        """
        with self._lock:
            columns = len(rules.schema.columns)
            self._columns += columns
            if self._columns > MAX_KEPT_COLUMNS:
                self._kept, self._columns = {}, columns
            self._kept[id(rules.schema), id(rules.options), key] = value, rules
        return value
