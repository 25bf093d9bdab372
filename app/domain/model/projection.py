"""Differences between landed rows and the source: audit columns, filters and transforms of a table (decision 0071).

They are table options. A rejection names the option by its JSON Pointer in the registration.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from app.domain.model.expressions import ExpressionError, ParsedExpression, parse_expression
from app.domain.model.names import check_new_column_name
from app.domain.model.table_schema import Column, ColumnType, TableSchema, TypeName
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.errors.exceptions import pointer_to

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def bad_option(detail: str, *path: str) -> RejectedInput:
    """Return the rejection of the option at this path."""
    return rejection(Code.BAD_OPTION, detail, *path)


def fixed_option(detail: str, *path: str) -> RejectedInput:
    """Return the rejection of an option at this path that a new table could have, but not the present one."""
    remedy = "Leave the option as it is, or recreate the table, which empties it."
    return rejection(Code.BAD_OPTION, detail, *path, remedy=remedy)


def rejection(code: Code, detail: str, *path: str, remedy: str | None = None) -> RejectedInput:
    """Return a rejection with another code of the option at this path."""
    return RejectedInput.at(code, detail, pointer=reduce(pointer_to, path, "/options"), remedy=remedy)


def check_members(given: Mapping[str, Any], of: "type[DataclassInstance]", *path: str) -> None:
    """Raise RejectedInput `bad_option` for a key of the object at this path that its dataclass does not have."""
    known = [member.name for member in fields(of)]
    unknown = sorted(given.keys() - {*known})
    if unknown:
        raise bad_option(f"there is no {unknown[0]!r} here; choose from {', '.join(known)}", *path)


@contextmanager
def named(*path: str) -> Iterator[None]:
    """Turn a rejection in the block into one of the option at this path."""
    try:
        yield
    except RejectedInput as error:
        raise bad_option(error.detail, *path) from None


class History(StrEnum):
    """Content of the files: the newest state of each row, or a row for every change."""

    OFF = "off"
    APPEND_ONLY = "append_only"


class Deletes(StrEnum):
    """Treatment of a deleted row: it leaves the mirror, or remains in it with the audit column `deleted` true."""

    APPLY = "apply"
    FLAG = "flag"


class AuditValue(StrEnum):
    """The content of an audit column."""

    OPERATION = "operation"
    SOURCE_TIMESTAMP = "source_timestamp"
    SOURCE_POSITION = "source_position"
    TRANSACTION_ID = "transaction_id"
    TRANSACTION_ORDER = "transaction_order"
    ACCEPTED_AT = "accepted_at"
    ROW_ORDER = "row_order"
    DELETED = "deleted"


_TYPES: Final[Mapping[AuditValue, ColumnType]] = {
    AuditValue.OPERATION: ColumnType(TypeName.STRING),
    AuditValue.SOURCE_TIMESTAMP: ColumnType(TypeName.TIMESTAMP),
    AuditValue.SOURCE_POSITION: ColumnType(TypeName.STRING),
    AuditValue.TRANSACTION_ID: ColumnType(TypeName.STRING),
    AuditValue.TRANSACTION_ORDER: ColumnType(TypeName.INT64),
    AuditValue.ACCEPTED_AT: ColumnType(TypeName.TIMESTAMP),
    AuditValue.ROW_ORDER: ColumnType(TypeName.INT64),
    AuditValue.DELETED: ColumnType(TypeName.BOOLEAN),
}


@dataclass(frozen=True, slots=True)
class AuditColumns:
    """The names of the columns that the gateway fills; a column without a name does not exist."""

    operation: str | None = None
    """`string`: `insert`, `snapshot`, `update`, `delete` or `upsert`. A changed key is a `delete` and an `insert`."""
    source_timestamp: str | None = None
    """`timestamp`: when the source made the change, by Replicate's `timestamp`, Arcion's cursor, or `ts_ns`, `ts_us` or
    `ts_ms` in Debezium's `source`. A number counts seconds to nanoseconds by its size; a time without an offset is in
    UTC. NULL for an unreadable time, plain rows, Arrow streams, CSV snapshots and layouts without headers."""
    source_position: str | None = None
    """`string`: position in the source's log: Replicate's `changeSequence`, Arcion's cursor, Debezium's position.
    NULL where `source_timestamp` is."""
    transaction_id: str | None = None
    """`string`: transaction in the source: Replicate's `transactionId`, Debezium's `transaction.id` or else `txId`.
    NULL for Arcion and plain rows."""
    transaction_order: str | None = None
    """`int64`: the number of the change in its transaction, from 1: `transactionEventCounter`, `total_order`."""
    accepted_at: str | None = None
    """`timestamp`: when the gateway accepted the request."""
    row_order: str | None = None
    """`int64`: grows from row to row, in landing order, until the table is recreated."""
    deleted: str | None = None
    """`boolean`: true for a deleted row; needs `deletes=flag` or `history=append_only`."""

    @property
    def named(self) -> dict[AuditValue, str]:
        """The names of the columns that the table has, by what they hold."""
        return {value: name for value in AuditValue if (name := getattr(self, value)) is not None}

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns in the order of the files. All are nullable, so that they can be added later."""
        return tuple(Column(name, _TYPES[value]) for value, name in self.named.items())


NO_AUDIT_COLUMNS: Final = AuditColumns()


def check_audit_columns(audit: AuditColumns, history: History, deletes: Deletes, taken: set[str]) -> None:
    """Raise RejectedInput `bad_option` for a name that no new column can have, or that is taken by a folded name.

    Also for a column of deleted rows that nothing fills, or that is missing.
    """
    for value, name in audit.named.items():
        with named("audit_columns", value):
            check_new_column_name(name)
        if name.casefold() in taken:
            detail = f"another column is named {name!r} (letter case does not count)"
            raise bad_option(detail, "audit_columns", value)
        taken.add(name.casefold())
    if deletes is Deletes.FLAG and audit.deleted is None:
        raise bad_option("deletes=flag needs the name of a column, audit_columns.deleted", "deletes")
    if deletes is Deletes.FLAG and history is not History.OFF:
        raise bad_option("history=append_only has a row for every delete; it needs deletes=apply", "deletes")
    if deletes is Deletes.APPLY and history is History.OFF and audit.deleted is not None:
        detail = "no row that lands is a deleted one; deleted needs deletes=flag or history=append_only"
        raise bad_option(detail, "audit_columns", AuditValue.DELETED)


MAX_FILTER_PARTS: Final = 100
"""Comparisons and literals of one filter."""
MAX_FILTER_DEPTH: Final = 2


class Comparison(StrEnum):
    """The comparison of a column's values; a comparison with NULL is never true."""

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
"""Ways to compare columns of these types."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A comparison of a column with literals, or conditions of which all or any must be true, two levels deep."""

    column: str | None = None
    """The column that is compared, by its name in the source."""
    op: Comparison | None = None
    """`=`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not_in`, `is_null` or `is_not_null`."""
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

    Raises RejectedInput `bad_option`. Literals are checked by `app.domain.rows.landing_projection`.
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


MAX_MASKED_CHARACTERS: Final = 1_000
"""The most characters that a truncated value keeps."""

_GROUP: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
"""Names of groups."""

MAX_CONSTANT_BYTES: Final = 4 * 2**10
MAX_CONSTANTS_BYTES: Final = 64 * 2**10
"""UTF-8 bytes of one constant, and of all constants of a table: each row of each request lands with them."""


class MaskMethod(StrEnum):
    """The landed form of a masked value: its keyed hash, its first characters, or nothing."""

    HASH = "hash"
    TRUNCATE = "truncate"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class Mask:
    """The masking of a column's values before they are stored."""

    method: MaskMethod
    """Value that lands: a keyed hash, the first characters, or NULL. The hash is HMAC-SHA-256 of the text in UTF-8, as
    64 hexadecimal digits. Its key is HMAC-SHA-256 of `group:<group>` under `MIRRORGATE_MASK_SECRET`; without a group,
    of `table:` and the table's number in the database."""
    characters: int | None = None
    """Number of characters that `truncate` keeps."""
    group: str | None = None
    """The group in which `hash` gives equal values equal hashes; without it, only within the table. A new group needs
    the right `register` for all tables."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A column with the same value in every row."""

    type: str
    """The type of the column."""
    value: str
    """The value as text."""

    def column(self, name: str) -> Column:
        """Return the column with this name. Raises RejectedInput `bad_type`."""
        return Column(name, ColumnType.parse(self.type))


MAX_DERIVED_COLUMNS: Final = 50


def check_derive(derive: Mapping[str, str], unreadable: Collection[str], schema: TableSchema, taken: set[str]) -> None:
    """Check the names of derived columns, and add those of new ones to the folded names that are taken.

    A derived column with the name of a column of the source lands instead of it. Raises RejectedInput `bad_option`.
    `parsed_derive` checks the expressions.
    """
    if len(derive) > MAX_DERIVED_COLUMNS:
        raise bad_option(f"a table has at most {MAX_DERIVED_COLUMNS} derived columns", "derive")
    for name in derive:
        if name in schema.key_set:
            raise bad_option(f"the key column {name!r} cannot be derived", "derive", name)
        if name in unreadable:
            raise bad_option(f"the column {name!r} is excluded or masked, and cannot be derived too", "derive", name)
        if name in schema.names:
            continue
        with named("derive", name):
            check_new_column_name(name)
        if name.casefold() in taken:
            raise bad_option(f"another column lands as {name!r} (letter case does not count)", "derive", name)
        taken.add(name.casefold())


def parsed_derive(
    derive: Mapping[str, str], schema: TableSchema, unreadable: Collection[str] = ()
) -> dict[str, ParsedExpression]:
    """Return the expressions by the name of their column; `unreadable` columns are excluded or masked.

    Raises RejectedInput `bad_option` that says where an expression is wrong.
    """
    found: dict[str, ParsedExpression] = {}
    for name, text in derive.items():
        try:
            found[name] = parse_expression(text, schema.columns)
        except ExpressionError as error:
            raise bad_option(str(error), "derive", name) from None
        if read := sorted(found[name].columns.intersection(unreadable)):
            raise bad_option(f"the values of {read[0]!r} are excluded or masked", "derive", name)
    return found


def check_transforms(
    rename: Mapping[str, str], constants: Mapping[str, Constant], masks: Mapping[str, Mask], schema: TableSchema
) -> set[str]:
    """Return the names of the columns that land, folded. Raises RejectedInput `bad_option` for a wrong declaration."""
    for name in rename:
        if name not in schema.names:
            raise bad_option(f"the table has no column {name!r}", "rename", name)
    taken = {name.casefold() for name in schema.names if name not in rename}
    for option, names in (("rename", rename), ("constants", {name: name for name in constants})):
        for given, name in names.items():
            with named(option, given):
                check_new_column_name(name)
            if name.casefold() in taken:
                raise bad_option(f"another column lands as {name!r} (letter case does not count)", option, given)
            taken.add(name.casefold())
    for name, constant in constants.items():
        with named("constants", name, "type"):
            constant.column(name)
    _check_lengths(constants)
    for name, mask in masks.items():
        _check_mask(name, mask, schema)
    return taken


def _check_lengths(constants: Mapping[str, Constant]) -> None:
    """Raise RejectedInput `bad_option` for constants that are too long."""
    advice = "it lands in every row, so let it name a row of another table instead"
    together = 0
    for name, constant in constants.items():
        size = len(constant.value.encode())
        if size > MAX_CONSTANT_BYTES:
            detail = f"the value has {size} bytes, more than {MAX_CONSTANT_BYTES}; {advice}"
            raise bad_option(detail, "constants", name, "value")
        together += size
    if together > MAX_CONSTANTS_BYTES:
        detail = f"the constants have {together} bytes together, more than {MAX_CONSTANTS_BYTES}; leave some out"
        raise bad_option(detail, "constants")


def _check_mask(name: str, mask: Mask, schema: TableSchema) -> None:
    column = next((column for column in schema.columns if column.name == name), None)
    if column is None:
        raise bad_option(f"the table has no column {name!r}", "masks", name)
    if mask.method is MaskMethod.NULL:
        if name in schema.key_set or not column.nullable:
            raise bad_option(f"the required column {name!r} cannot be NULL", "masks", name, "method")
    elif column.type.name is not TypeName.STRING:
        detail = (
            f"column {name!r} is {column.type}, and {mask.method} needs a string; "
            "declare the column as string when the table is registered, or use the method null"
        )
        raise bad_option(detail, "masks", name, "method")
    if mask.method is MaskMethod.TRUNCATE:
        if name in schema.key_set:
            raise bad_option(
                f"the key column {name!r} cannot be truncated; use the method hash", "masks", name, "method"
            )
        if mask.characters is None or not 0 < mask.characters <= MAX_MASKED_CHARACTERS:
            detail = f"truncate needs `characters` from 1 to {MAX_MASKED_CHARACTERS}"
            raise bad_option(detail, "masks", name, "characters")
    elif mask.characters is not None:
        raise bad_option(f"only truncate has `characters`, not {mask.method}", "masks", name, "characters")
    if mask.group is not None:
        if mask.method is not MaskMethod.HASH:
            raise bad_option(f"only hash has a `group`, not {mask.method}", "masks", name, "group")
        if _GROUP.fullmatch(mask.group) is None:
            detail = "a group has 1 to 64 of a-z, 0-9, `.`, `_` and `-`, and begins with a letter or a digit"
            raise bad_option(detail, "masks", name, "group")
