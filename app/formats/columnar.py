"""What the columnar readers of all formats share: how they decline, the types of images, and the shapes of changes.

A columnar reader decodes the images of many messages at once into tuples in the order of the table's columns, with
UNSET for what an image does not give. A change depends on values only through its shape, so shapes are made once.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from app.domain.rows.row_rules import Shape

MAX_SHAPES: Final = 256
"""Shapes that are kept, and shapes of changes that are read together; more take the exact path."""

CONTAINERS: Final = {dict, list}
SCALAR: Final = str | int | bool | None
"""Type of most values; fractions are read as they are written."""


class NotColumnar(Exception):
    """A body or a message is unusual or wrong in some way, so the exact path has to read it."""


def image_type(
    names: Sequence[str], types: Sequence[Any], *default: Any, others: Sequence[str] = (), of_others: Any = SCALAR
) -> type[msgspec.Struct]:
    """Return the type of images of columns with these names and types, which are required unless there is a default.

    An image can have the `others` as well. Raises ValueError for names that msgspec cannot take, with quotes or control
    characters.
    """
    renamed = {f"column_{at}": name for at, name in enumerate((*names, *others))}
    fields: list[Any] = [(f"column_{at}", of_value, *default) for at, of_value in enumerate(types)]
    fields += [(f"column_{at}", of_others | UnsetType, UNSET) for at in range(len(names), len(renamed))]
    return msgspec.defstruct("Image", fields, rename=renamed, gc=False, forbid_unknown_fields=True)


def given_columns(names: Sequence[str], rows: Iterable[Sequence[object]]) -> list[frozenset[str]]:
    """Return the columns that each row gives, one object for equal ones."""
    presence = [tuple(value is not UNSET for value in row) for row in rows]
    known = {present: frozenset(compress(names, present)) for present in {*presence}}
    return [known[present] for present in presence]


def without_unset(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return the rows with None in the place of what they do not give."""
    return [tuple(None if value is UNSET else value for value in row) for row in rows]


def is_uniform(columns: Iterable[Sequence[Any]]) -> bool:
    """Return True if all messages have the same values; this is usual, and faster to find out than distinct values."""
    return all(column.count(column[0]) == len(column) for column in columns)


class Shapes:
    """Shapes of the changes of a table: changes of which the same is known share one."""

    def __init__(self, make: Callable[..., Shape]) -> None:
        """Make shapes by a function of what is known of a change, which raises NotColumnar for a wrong one."""
        self._make = make
        self._known: dict[tuple[Any, ...], Shape] = {}

    def of(self, *known: Sequence[Any]) -> list[Shape]:
        """Return the shape of each change, of which the columns tell all that decides it. Raises NotColumnar."""
        if is_uniform(known):
            return [self._shape(tuple([column[0] for column in known]))] * len(known[0])
        keys = [*zip(*known, strict=True)]
        distinct = {*keys}
        if len(distinct) > MAX_SHAPES:
            raise NotColumnar
        shape_of = {key: self._shape(key) for key in distinct}
        return [*map(shape_of.__getitem__, keys)]

    def _shape(self, key: tuple[Any, ...]) -> Shape:
        shape = self._known.get(key)
        if shape is None:
            if len(self._known) >= MAX_SHAPES:
                self._known.clear()
            shape = self._known[key] = self._make(*key)
        return shape
