"""The layout of an Arcion CSV file: what the request must declare because the file does not say it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.errors import Code, RejectedInput
from app.formats.csv import CsvDialect


class CsvMode(StrEnum):
    """The mode in which Replicant wrote the file."""

    SNAPSHOT = "snapshot"
    REALTIME = "realtime"


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """What a request declares about its CSV: `columns` in file order, or a `header` record that names them."""

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


_MEANING = re.compile(
    r"(?:(?:new|old|exists)(?:_?val(?:ue)?)?[ _.-])?(.+?)(?:[ _.-](?:new|old|exists)(?:_?val(?:ue)?)?)?", re.IGNORECASE
)


def columns_of_triplets(names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a header with three names per column, such as `id_new,id_old,id_exists`, and three more.

    Raises RejectedInput `columns_required` if three names do not belong to one column.
    """
    columns = []
    for triplet in zip(names[0:-3:3], names[1:-3:3], names[2:-3:3], strict=True):
        if len(set(triplet)) == 1 or all(name.startswith(triplet[0]) for name in triplet):
            columns.append(triplet[0])
            continue
        found = {match[1] for match in map(_MEANING.fullmatch, triplet) if match}
        if len(found) != 1:
            detail = "the header has three names per column that do not match; set `columns`"
            raise RejectedInput(Code.COLUMNS_REQUIRED, detail)
        columns.append(found.pop())
    check_columns(tuple(columns))
    return tuple(columns)
