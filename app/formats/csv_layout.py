"""How an Arcion CSV file is written: what the file itself does not say."""

from dataclasses import dataclass
from enum import StrEnum

from app.errors import Code, RejectedInput


class CsvMode(StrEnum):
    """How Replicant wrote the file."""

    SNAPSHOT = "snapshot"
    REALTIME = "realtime"


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """What a request declares of its CSV: `columns` in file order, or a first record that names them."""

    mode: CsvMode
    columns: tuple[str, ...] = ()
    header: bool = False
    delimiter: str = ","
    quote: str = '"'
    escape: str = '"'

    def checked(self) -> "CsvLayout":
        """This layout if it can be read. Raises RejectedInput `bad_request` or `columns_required`."""
        signs = (self.delimiter, self.quote, self.escape)
        if not all(len(sign) == 1 and sign.isascii() and sign not in "\r\n\0" for sign in signs):
            raise RejectedInput(Code.BAD_REQUEST, "delimiter, quote and escape are one ASCII character each")
        if self.delimiter in signs[1:]:
            raise RejectedInput(Code.BAD_REQUEST, "the delimiter can be neither the quote nor the escape")
        if not self.columns and not self.header:
            raise RejectedInput(Code.COLUMNS_REQUIRED, "neither `columns` nor a header tells the order of the columns")
        check_columns(self.columns)
        return self


def check_columns(columns: tuple[str, ...]) -> None:
    """Raises RejectedInput `bad_request` for a name that stands twice."""
    if len(set(columns)) != len(columns):
        raise RejectedInput(Code.BAD_REQUEST, "a column is named twice")
