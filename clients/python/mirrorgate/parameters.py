"""Parameters of change requests, as the client sends them and the gateway reads them, and the path of a table.

The layout of a CSV body is a parameter, because the body does not say it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self
from urllib.parse import quote

from mirrorgate.errors import Code, RejectedInput

_NULL: Final = "NULL"


class LoadMode(StrEnum):
    """The deletes of a completed load: the rows that it did not have, or nothing."""

    FULL = "full"
    APPEND = "append"


class RowOperation(StrEnum):
    """The operation of all rows of a request that have none."""

    UPSERT = "upsert"
    INSERT = "insert"
    DELETE = "delete"


class CsvMode(StrEnum):
    """The mode in which Replicant wrote the file."""

    SNAPSHOT = "snapshot"
    REALTIME = "realtime"


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The characters that separate and enclose fields, and the text that means NULL."""

    delimiter: str = ","
    quote: str = '"'
    escape: str = '"'
    null: str | None = None
    """The only text without quotes that is NULL; None leaves it to the format, see `nulls`."""

    def nulls(self, *, empty_is_null: bool) -> tuple[str, ...]:
        """Return the strings that are NULL without quotes; `empty_is_null` is what the format says of the empty one."""
        if self.null is not None:
            return (self.null,)
        return (_NULL, "") if empty_is_null else (_NULL,)

    def has_empty_lines(self, columns: int) -> bool:
        """Return True if an empty line is a record: with one column, it is how `COPY` of Postgres writes NULL."""
        return columns == 1 and self.null == ""

    def checked(self) -> Self:
        """Return this dialect if a body can be read with it. Raises RejectedInput `bad_request`."""
        characters = (self.delimiter, self.quote, self.escape)
        if not all(len(one) == 1 and one.isascii() and one not in "\r\n\0" for one in characters):
            raise RejectedInput(Code.BAD_REQUEST, "delimiter, quote and escape must be one ASCII character each")
        if self.delimiter in characters[1:]:
            raise RejectedInput(Code.BAD_REQUEST, "the delimiter must differ from the quote and the escape")
        if not {*(self.null or "")}.isdisjoint({self.delimiter, self.quote, *"\r\n\0"}):
            raise RejectedInput(Code.BAD_REQUEST, "null must be the text of a field without quotes")
        return self


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """The CSV layout that a request declares: `columns` in file order, or a `header` record that names them."""

    mode: CsvMode
    columns: tuple[str, ...] = ()
    header: bool = False
    delimiter: str = ","
    quote: str = '"'
    escape: str = '"'
    null: str | None = None
    """The text without quotes that is NULL; None is `NULL`."""

    @property
    def dialect(self) -> CsvDialect:
        """The characters that separate and enclose fields, and the text that means NULL."""
        return CsvDialect(self.delimiter, self.quote, self.escape, self.null)

    def checked(self) -> "CsvLayout":
        """Return this layout if it is valid. Raises RejectedInput `bad_request` or `columns_required`."""
        self.dialect.checked()
        if not self.columns and not self.header:
            detail = "the order of the columns is unknown; set `columns`, or `header=true` for a file with a header"
            raise RejectedInput(Code.COLUMNS_REQUIRED, detail)
        check_columns(self.columns)
        return self


def check_columns(columns: tuple[str, ...]) -> None:
    """Raise RejectedInput `bad_request` if two columns have the same name."""
    if len(set(columns)) != len(columns):
        raise RejectedInput(Code.BAD_REQUEST, "two columns have the same name")


_FIELDS = ("new", "old", "exists")
"""The fields of a column in a realtime record, in their order."""
_WORD = re.compile(
    r"^(?:new|old|exists)(?:_?val(?:ue)?)?[ _.-]|[ _.-](?:new|old|exists)(?:_?val(?:ue)?)?$", re.IGNORECASE
)


def columns_of_triplets(names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a header with three names per column, such as `id_new,id_old,id_exists`, and three more.

    Raises RejectedInput `columns_required` if three names do not belong to one column, or name its fields in another
    order.
    """
    columns = []
    for triplet in zip(names[0:-3:3], names[1:-3:3], names[2:-3:3], strict=True):
        stem = triplet[0] if all(name.startswith(triplet[0]) for name in triplet) else ""
        rests = [name.removeprefix(stem) for name in triplet]
        fields = zip(rests, _FIELDS, strict=True)
        is_ordered = all(field in word.lower() for rest, field in fields for word in _WORD.findall(rest))
        found = {stem or _WORD.sub("", rest) for rest in rests}
        if len(found) != 1 or not is_ordered:
            detail = "the header has three names per column that do not match NEW, OLD and EXISTS; set `columns`"
            raise RejectedInput(Code.COLUMNS_REQUIRED, detail)
        columns.append(found.pop())
    check_columns(tuple(columns))
    return tuple(columns)


class Stage(StrEnum):
    """Stage of accepted rows on their way to queries; `stages.wait_until` defines each."""

    PUBLISHED = "published"
    PROCESSED = "processed"
    QUERYABLE = "queryable"


WAIT_SECONDS: Final = 600.0
"""Seconds that a wait for a stage lasts by default."""


def table_path(name: str) -> str:
    """Return the path of a table; a name such as `a#b` or `größe` is escaped. Raises RejectedInput `bad_name`."""
    return named_path("tables", name, Code.BAD_NAME)


def named_path(kind: str, name: str, code: Code = Code.BAD_REQUEST) -> str:
    """Return the path of a table, layout or key, whose name is escaped. Raises RejectedInput for another path."""
    if "/" in name or name in ("", ".", ".."):
        raise RejectedInput(code, "the name is empty or a dot, or has a slash")
    return f"/v1/{kind}/{quote(name, safe='')}"
