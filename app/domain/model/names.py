"""Names of tables, columns, landing folders and sources: which are allowed, and which table or folder they mean.

`TableName` is the name of a table of the gateway, and gives the table its landing folder. A caller's name for a table
(`?table=`) is compared without regard to letter case, like landing folders.

`SourceName` is the name by which a source knows its table, which can feed a table with another name. Names of sources
are compared exactly, because two tables of a source can differ in letter case only.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirrorgate.errors import Code, RejectedInput

ROW_MARKER: Final = "__rowMarker__"
MAX_NAME_BYTES: Final = 128
MAX_TEXT_BYTES: Final = 255
"""Bytes of any other string in an index of Postgres, whose rows have room for 2,704 bytes in all."""

_INVISIBLE: Final = frozenset({"Cf", "Zl", "Zp"})
"""Bidirectional controls, zero-width characters and line separators."""

_BLANK: Final = re.compile(
    "["
    # Default_Ignorable_Code_Point of Unicode 15.1, which Python does not know: no font draws them.
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    # Spaces but U+0020, which look like it, or like nothing.
    "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
    # Characters whose form is empty: BRAILLE PATTERN BLANK, MUSICAL SYMBOL NULL NOTEHEAD, KHITAN SMALL SCRIPT FILLER,
    # BRAHMI NUMBER JOINER, and the blanks of Egyptian hieroglyphs.
    "\u2800\U0001d159\U00016fe4\U0001107f\U00013441\U00013442"
    "]"
)
"""Characters that look like nothing or like a space, so that two names would look the same."""

_FORBIDDEN: Final = re.compile(r'[/\\.%:*?"<>|]')


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of a destination table, `name` or `schema.name`; unique without regard to letter case."""

    schema: str | None
    table: str

    @classmethod
    def parse(cls, text: str) -> "TableName":
        """Read `name` or `schema.name`. Raises RejectedInput `bad_name`."""
        parts = text.split(".")
        if len(parts) > 2:
            raise RejectedInput(Code.BAD_NAME, "a table name must be name or schema.name")
        return cls.of(parts[0] if len(parts) == 2 else None, parts[-1])

    @classmethod
    def of(cls, schema: str | None, table: str) -> "TableName":
        """Return the name made of separate parts. Raises RejectedInput `bad_name`, also for a dot in a part.

        A dot would make two tables look like one.
        """
        for part in (table,) if schema is None else (schema, table):
            _check_part(part)
        return cls(schema, table)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}" if self.schema else self.table

    @property
    def folded(self) -> str:
        """The form in which equal names are equal strings."""
        return str(self).casefold()

    @property
    def folder(self) -> str:
        """The landing folder below the landing-zone root: `<schema>.schema/<table>` or `<table>`."""
        return f"{self.schema}.schema/{self.table}" if self.schema else self.table


def unknown_table(name: object, *, withheld: str | None = None) -> RejectedInput:
    """Return the rejection for a table that is not registered, or that the caller may not see: both read the same."""
    return RejectedInput(Code.UNKNOWN_TABLE, f"table {name} is not registered", withheld=withheld)


def check_column_name(name: str) -> None:
    """Raise RejectedInput `bad_name` or `reserved_name` for a name that no landing file can have."""
    if name.casefold() == ROW_MARKER.casefold():
        raise RejectedInput(Code.RESERVED_NAME, f"a column cannot be named {ROW_MARKER}")
    if not name.strip():
        raise RejectedInput(Code.BAD_NAME, "a column name is blank")
    _check_text(name, "column name")


def check_new_column_name(name: str) -> None:
    """Check the name of a new column: as `check_column_name`, and it must not look like another name.

    Raises RejectedInput `bad_name` or `reserved_name`. Tables that already have such names keep them.
    """
    check_column_name(name)
    if name != name.strip():
        raise RejectedInput(Code.BAD_NAME, f"the column name {name!r} starts or ends with a blank")
    _check_visible(name, "column name")


def check_new_table_name(name: TableName) -> None:
    """Raise RejectedInput `bad_name` for a new table whose name has invisible characters."""
    _check_visible(str(name), "table name")


def _check_visible(name: str, what: str) -> None:
    if _BLANK.search(name) or any(unicodedata.category(character) in _INVISIBLE for character in name):
        raise RejectedInput(
            Code.BAD_NAME,
            f"a {what} has an invisible or blank character, or one that changes the writing direction",
        )


def is_bounded(text: str | None) -> bool:
    """Return True if a string is short enough for an index."""
    return text is None or len(text) * 4 <= MAX_TEXT_BYTES or len(text.encode()) <= MAX_TEXT_BYTES


def _check_part(part: str) -> None:
    if not part:
        raise RejectedInput(Code.BAD_NAME, "a part of the table name is empty")
    _check_text(part, "table name")
    if _FORBIDDEN.search(part):
        raise RejectedInput(Code.BAD_NAME, 'a table name cannot contain any of / \\ . % : * ? " < > |')
    if part.startswith("_"):
        raise RejectedInput(Code.BAD_NAME, "a table name cannot start with _ (mirroring ignores such folders)")
    if part != part.strip():
        raise RejectedInput(Code.BAD_NAME, "a table name cannot start or end with a blank")


def _check_text(name: str, what: str) -> None:
    if not unicodedata.is_normalized("NFC", name):
        raise RejectedInput(Code.BAD_NAME, f"a {what} is not in Unicode normal form C")
    if any(unicodedata.category(character) in {"Cc", "Cs", "Cn"} for character in name):
        raise RejectedInput(Code.BAD_NAME, f"a {what} has a control character or an unassigned one")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise RejectedInput(Code.BAD_NAME, f"a {what} is longer than {MAX_NAME_BYTES} UTF-8 bytes")


_PART: Final = re.compile(r'"((?:[^"]|"")+)"|([^".][^.]*)')
_MAX_PARTS: Final = 3


class SourceName(NamedTuple):
    """A source's name for a table; with a catalog, it means that catalog's table only.

    The parts are any text, also one that no landing folder can have.
    """

    catalog: str | None
    schema: str | None
    name: str
    any_case: bool = False
    """True for a caller's name for a table, in any letter case."""

    @classmethod
    def of(cls, catalog: str | None, schema: str | None, name: str) -> "SourceName":
        """Return the name made of separate parts. Raises RejectedInput `bad_name`."""
        for part in (catalog, schema, name):
            if part is not None and (not part or "\0" in part):  # Postgres cannot store U+0000, also not in the audit
                raise RejectedInput(Code.BAD_NAME, "a part of the name is empty or has the character U+0000")
            if not is_bounded(part):
                raise RejectedInput(Code.BAD_NAME, f"a part of the name is longer than {MAX_TEXT_BYTES} UTF-8 bytes")
        return cls(catalog, schema, name)

    @classmethod
    def address(cls, table: TableName) -> "SourceName":
        """Return a caller's name for a table."""
        return cls(None, table.schema, table.table, any_case=True)

    @classmethod
    def parse(cls, text: str) -> "SourceName":
        """Read `name`, `schema.name` or `catalog.schema.name`; a part with a dot is in double quotes.

        Raises RejectedInput `bad_name`.
        """
        parts: list[str] = []
        position = 0
        while match := _PART.match(text, position):
            parts.append(match[2] if match[1] is None else match[1].replace('""', '"'))
            position = match.end() + 1
            if match.end() == len(text):
                break
            if text[match.end()] != ".":
                break
        if position != len(text) + 1 or len(parts) > _MAX_PARTS:
            detail = "a source must be name, schema.name or catalog.schema.name; put a part with a dot in double quotes"
            raise RejectedInput(Code.BAD_NAME, detail)
        catalog = parts[0] if len(parts) == _MAX_PARTS else None
        return cls.of(catalog, parts[-2] if len(parts) > 1 else None, parts[-1])

    def __str__(self) -> str:
        """Return the name as `parse` reads it; without quotes it looks like a table name."""
        return ".".join(_quoted(part) for part in (self.catalog, self.schema, self.name) if part is not None)

    @property
    def without_catalog(self) -> "SourceName":
        """The name without its catalog."""
        return self if self.catalog is None else self._replace(catalog=None)

    @property
    def folded(self) -> str:
        """The form in which names that differ in letter case only are equal."""
        return str(self).casefold()

    @property
    def table(self) -> TableName:
        """The table with exactly this name. Raises RejectedInput `bad_name` if no table can have it."""
        return TableName.of(self.schema, self.name)


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"' if "." in part or part.startswith('"') else part
