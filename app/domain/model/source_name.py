"""Source names: the names by which sources know their tables, which can feed a table with another name.

Names of sources are compared exactly, because two tables of a source can differ in letter case only. A caller's name
for a table of the gateway (`?table=`) is compared without regard to letter case, like landing folders.
"""

import re
from typing import Final, NamedTuple

from app.domain.model.names import MAX_TEXT_BYTES, TableName, is_bounded
from app.errors import Code, RejectedInput

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
            if part == "":
                raise RejectedInput(Code.BAD_NAME, "a part of the name is empty")
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
    def key(self) -> "SourceName":
        """The form of the name that caches use as a key."""
        if not self.any_case:
            return self
        return self._replace(schema=self.schema and self.schema.casefold(), name=self.name.casefold())

    @property
    def table(self) -> TableName:
        """The table with exactly this name. Raises RejectedInput `bad_name` if no table can have it."""
        return TableName.of(self.schema, self.name)


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"' if "." in part or part.startswith('"') else part
