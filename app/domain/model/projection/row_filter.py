"""The filter of a table: a predicate on its typed columns, which says which rows are mirrored (decision 0071)."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from app.domain.model.projection.rejections import bad_option, check_members
from app.domain.model.table_schema import ColumnType, TableSchema, TypeName

MAX_FILTER_PARTS: Final = 100
"""Comparisons and literals of one filter."""
MAX_FILTER_DEPTH: Final = 2


class Comparison(StrEnum):
    """How the values of a column are compared; a comparison with NULL is never true."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    IN = "in"
    NOT_IN = "not_in"
    IS_NULL = "is_null"
    IS_NOT_NULL = "is_not_null"


_OF_NULL: Final = frozenset({Comparison.IS_NULL, Comparison.IS_NOT_NULL})
_OF_LISTS: Final = frozenset({Comparison.IN, Comparison.NOT_IN})
_OF_ANY_TYPE: Final = frozenset({Comparison.EQUAL, Comparison.NOT_EQUAL}) | _OF_LISTS | _OF_NULL
_UNORDERED: Final[Mapping[TypeName, Collection[Comparison]]] = {
    TypeName.BOOLEAN: _OF_ANY_TYPE,
    TypeName.BINARY: _OF_NULL,
    TypeName.JSON: _OF_NULL,
}
"""What columns of these types can be compared by."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A comparison of a column with literals, or conditions of which all or any must be true, two levels deep."""

    column: str | None = None
    """The column that is compared, by its name in the source."""
    op: Comparison | None = None
    """How it is compared."""
    value: str | None = None
    """The literal as text."""
    values: tuple[str, ...] | None = None
    """The literals of `in` and `not_in`."""
    all: tuple["RowFilter", ...] | None = None
    """Conditions that must all be true."""
    any: tuple["RowFilter", ...] | None = None
    """Conditions of which one must be true."""

    @property
    def literals(self) -> tuple[str, ...]:
        """The literals of a comparison."""
        return (self.values or ()) if self.value is None else (self.value,)

    def comparisons(self, *path: str) -> Iterator[tuple["RowFilter", tuple[str, ...]]]:
        """Yield every comparison with its path in the options."""
        if self.column is not None:
            yield self, path
        for name, parts in (("all", self.all), ("any", self.any)):
            for number, part in enumerate(parts or ()):
                yield from part.comparisons(*path, name, str(number))

    def renamed(self, new_names: Mapping[str, str]) -> "RowFilter":
        """Return the filter with every column under its new name."""
        every = self.all and tuple(part.renamed(new_names) for part in self.all)
        some = self.any and tuple(part.renamed(new_names) for part in self.any)
        return replace(self, column=self.column and new_names[self.column], all=every, any=some)

    def to_json(self) -> dict[str, Any]:
        """Return the filter as a registration has it."""
        written = {"column": self.column, "op": self.op and str(self.op), "value": self.value}
        lists = {
            "values": self.values and list(self.values),
            "all": self.all and [part.to_json() for part in self.all],
            "any": self.any and [part.to_json() for part in self.any],
        }
        return {name: value for name, value in (written | lists).items() if value is not None}


def check_filter_members(given: Mapping[str, Any], *path: str) -> None:
    """Raise RejectedInput `bad_option` for an unknown key anywhere in a filter, or one that nests too deeply."""
    if len(path) > 1 + 2 * MAX_FILTER_DEPTH:
        raise bad_option(f"`all` and `any` nest at most {MAX_FILTER_DEPTH} levels deep", *path)
    check_members(given, RowFilter, *path)
    for name in ("all", "any"):
        for number, part in enumerate(given.get(name) or ()):
            check_filter_members(part, *path, name, str(number))


def check_filter(found: RowFilter, schema: TableSchema, unreadable: Collection[str]) -> None:
    """Check the form of a filter, and its columns; `unreadable` ones are excluded or masked.

    Raises RejectedInput `bad_option`. Literals are checked by `app.domain.rows.projection.filtering`.
    """
    _check_form(found, "filter")
    types = {column.name: column.type for column in schema.columns}
    parts = 0
    for comparison, path in found.comparisons("filter"):
        _check_comparison(comparison, types, unreadable, path)
        parts += 1 + len(comparison.literals)
    if parts > MAX_FILTER_PARTS:
        raise bad_option(f"a filter has at most {MAX_FILTER_PARTS} comparisons and values", "filter")


def check_filter_stays(found: RowFilter | None, left: Collection[str]) -> None:
    """Raise RejectedInput `bad_option` for a filter of a column that leaves the source.

    Rows would be NULL there from then on, match no more, and leave the mirror one by one.
    """
    if found is None:
        return
    for comparison, path in found.comparisons("filter"):
        if comparison.column in left:
            detail = f"the source no longer has the column {comparison.column!r}, which the filter compares; "
            raise bad_option(f"{detail}change or remove the filter first", *path, "column")


def _check_form(found: RowFilter, *path: str) -> None:
    forms = [found.column is not None, found.all is not None, found.any is not None]
    if sum(forms) != 1 or (found.column is None and (found.op is not None or found.literals)):
        raise bad_option("a filter is a comparison with `column` and `op`, or has `all` or `any`", *path)
    for name, parts in (("all", found.all), ("any", found.any)):
        if parts == ():
            raise bad_option(f"`{name}` has no filter in it", *path, name)
        for number, part in enumerate(parts or ()):
            _check_form(part, *path, name, str(number))


def _check_comparison(
    found: RowFilter, types: Mapping[str, ColumnType], unreadable: Collection[str], path: tuple[str, ...]
) -> None:
    name, op = found.column, found.op
    if name is None or name not in types:
        raise bad_option(f"the table has no column {name!r}", *path, "column")
    if op is None:
        raise bad_option(f"the comparison needs `op`: {', '.join(Comparison)}", *path)
    if name in unreadable:
        raise bad_option(f"the values of {name!r} are excluded or masked", *path, "column")
    if op not in _UNORDERED.get(types[name].name, Comparison):
        raise bad_option(f"column {name!r} is {types[name]} and cannot be compared by {op}", *path, "op")
    wanted = "nothing" if op in _OF_NULL else "values" if op in _OF_LISTS else "value"
    given = {"value": found.value is not None, "values": found.values is not None}
    if given != {member: member == wanted for member in given}:
        raise bad_option(f"{op} needs {'no value' if wanted == 'nothing' else f'`{wanted}`'}", *path)
