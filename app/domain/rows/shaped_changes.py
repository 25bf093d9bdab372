"""Changes of one table as tuples of values with a shape, as the columnar decoders yield them.

Most changes of a body have the same few shapes. What becomes of a change depends on its shape, its values only fill the
row; so the rules are applied once per shape (`app.domain.rows.row_layout`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from app.domain.model.change import Operation, SourceTime, SourceValue

Values: TypeAlias = tuple[SourceValue, ...]
"""The values of an image in the order of the table's columns; those of columns that are not given are ignored."""


TypeColumn: TypeAlias = Callable[[Sequence[Any]], pa.Array]
"""Types the values of a column as a format writes them, None for NULL. Raises BadValues."""


class Shape(NamedTuple):
    """What a change gives, apart from its values: see `Change`. Names are those of columns."""

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


@dataclass(frozen=True, slots=True)
class ShapedChanges:
    """The ordered changes of one request for one table."""

    shapes: Sequence[Shape]
    """One per change. Changes of one shape share one object."""
    before: Sequence[Values | None]
    after: Sequence[Values | None]
    null_text: bool = False
    """True if the text `null` means NULL, as in Arcion's messages."""
    ends_transaction: bool = True
    """False if the source said that its transaction continues after the last change."""
    source_position: str | None = None
    """The source position of the last change that has one, verbatim."""
    origins: Callable[[], ChangeFacts | None] | None = field(default=None, compare=False)
    """Reads the facts of the changes, for a table that needs them; returns None where only the exact path can.

    None if the format has no such facts.
    """
    typed_by: Mapping[int, TypeColumn] = field(default_factory=dict, compare=False)
    """How columns are typed whose values are no source values, by position.

    Keys are never among them, and no column is if the table keeps row images. Requests that are typed together have the
    same, and only the exact path can land them if several updates change keys.
    """
