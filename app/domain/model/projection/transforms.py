"""Transforms of a table: columns that land under other names, with constants or with masked values (decision 0071)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.domain.model.names import check_new_column_name
from app.domain.model.projection.rejections import bad_option, named
from app.domain.model.table_schema import Column, ColumnType, TableSchema, TypeName

MAX_MASKED_CHARACTERS: Final = 1_000
"""The most characters that a truncated value keeps."""

_GROUP: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
"""Names of groups."""

MAX_CONSTANT_BYTES: Final = 4 * 2**10
MAX_CONSTANTS_BYTES: Final = 64 * 2**10
"""UTF-8 bytes of one constant, and of all constants of a table: each row of each request lands with them."""


class MaskMethod(StrEnum):
    """What lands of a masked value: its keyed hash, its first characters, or nothing."""

    HASH = "hash"
    TRUNCATE = "truncate"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class Mask:
    """How the values of a column are masked before they are stored."""

    method: MaskMethod
    """What lands: a keyed hash, the first characters, or NULL."""
    characters: int | None = None
    """How many characters `truncate` keeps."""
    group: str | None = None
    """The group in which `hash` gives equal texts equal hashes; without it, only within the table. A new group needs
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
