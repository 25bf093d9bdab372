"""The content of a file of changes, how to cut it, and the parameters that read it."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from mirrorgate.arrow_rows import CONTENT_TYPE, Columns, ParquetCutter
from mirrorgate.chunking.avro_messages import is_avro, split_replicate
from mirrorgate.chunking.chunks import Splitter
from mirrorgate.chunking.csv_records import split_csv
from mirrorgate.chunking.json_messages import split_json
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.file_content import Cutter, StreamCutter
from mirrorgate.file_paths import plain_name
from mirrorgate.parameters import CsvLayout, CsvMode

if TYPE_CHECKING:
    from mirrorgate.http import GatewayClient


_MAX_SHOWN: Final = 10


class SourceFormat(StrEnum):
    """Format of a file."""

    ARCION = "arcion"
    REPLICATE = "replicate"
    """Messages of Replicate, in JSON or in its Avro envelopes."""
    DEBEZIUM = "debezium"
    CSV = "csv"
    """CSV of Arcion."""
    ROWS = "rows"
    """Plain rows in JSON."""
    ROWS_CSV = "rows-csv"
    """Plain rows in CSV with a header."""
    PARQUET = "parquet"
    """Plain rows in Parquet."""
    EXCEL = "xlsx"
    """Plain rows in a sheet of Excel."""

    @property
    def is_csv(self) -> bool:
        """True if files contain records of CSV."""
        return self in {SourceFormat.CSV, SourceFormat.ROWS_CSV}

    @property
    def is_rows(self) -> bool:
        """True if files contain plain rows."""
        return self in {SourceFormat.ROWS, SourceFormat.ROWS_CSV, SourceFormat.PARQUET, SourceFormat.EXCEL}

    @property
    def registers(self) -> bool:
        """True if files say the types of their columns, with which a new table is registered."""
        return self in {SourceFormat.PARQUET, SourceFormat.EXCEL}

    @property
    def endpoint(self) -> str:
        """The last part of the path of the change endpoint."""
        if self.is_rows:
            return "rows"
        return self.value if self in {SourceFormat.REPLICATE, SourceFormat.DEBEZIUM} else "arcion"


_ENDINGS: Final = {
    ".csv": SourceFormat.ROWS_CSV,
    ".json": SourceFormat.ROWS,
    ".jsonl": SourceFormat.ROWS,
    ".ndjson": SourceFormat.ROWS,
    ".parquet": SourceFormat.PARQUET,
    ".xlsx": SourceFormat.EXCEL,
}


def ending_of(path: str) -> str:
    """Return the ending of a path, such as `.csv` for `orders.csv.gz`; empty if it has none."""
    return PurePosixPath(plain_name(path)).suffix


def format_of(paths: Iterable[str]) -> SourceFormat:
    """Return the format that the endings of files say. Raises RejectedInput if they say none, or several."""
    endings = Counter(map(ending_of, paths))
    formats = {_ENDINGS.get(ending) for ending in endings}
    if len(formats) == 1 and (found := formats.pop()) is not None:
        return found
    listed = ", ".join(f"{ending or 'no ending'} ({count:,})" for ending, count in sorted(endings.items())[:_MAX_SHOWN])
    detail = f"the endings of the files do not say one format: {listed or 'there is no file'}"
    remedy = f"Give --format, or only files that end with one of {', '.join(_ENDINGS)}."
    raise RejectedInput(Code.BAD_REQUEST, detail, remedy=remedy)


def content_type_of(body: bytes) -> str:
    """Return the media type of a body that is not CSV."""
    return "application/avro" if is_avro(body) else "application/json"


@dataclass(frozen=True, slots=True)
class Source:
    """The format of all files of a run."""

    format: SourceFormat
    table: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The other request parameters, such as those that describe a CSV layout."""
    key_columns: Sequence[str] = ()
    """The key columns of a table that the files register by the types of their columns."""
    sheet: str | None = None
    """The sheet of Excel files, None for the first one."""

    @property
    def registers(self) -> bool:
        """True if files register their table: they say the types of their columns, and the request declares none."""
        return self.format.registers and "columns" not in self.parameters

    def cutter(self, on_columns: Callable[[Columns], Collection[str]] = lambda _: ()) -> Cutter:
        """Return what cuts a file.

        `on_columns` gets the columns of a file that has types before its first request, and returns those to leave out.
        """
        if self.format is SourceFormat.PARQUET:
            return ParquetCutter(on_columns)
        if self.format is SourceFormat.EXCEL:
            from mirrorgate.excel import ExcelCutter

            return ExcelCutter(self.sheet, on_columns)
        return StreamCutter(self._split)

    @property
    def _split(self) -> Splitter:
        """The function that cuts a stream between messages."""
        if not self.format.is_csv:
            return split_replicate if self.format is SourceFormat.REPLICATE else split_json
        given = self.parameters
        quote = given.get("quote", '"')
        signs = (given.get("delimiter", ","), quote, given.get("escape", quote), given.get("null"))
        if self.format.is_rows:
            return partial(split_csv, layout=CsvLayout(CsvMode.SNAPSHOT, (), True, *signs))
        columns = tuple(given["columns"].split(",")) if given.get("columns") else ()
        return partial(split_csv, layout=CsvLayout(CsvMode(given["mode"]), columns, "header" in given, *signs))

    def poster(
        self, client: "GatewayClient", added: Callable[[], Mapping[str, str]] = dict
    ) -> Callable[[bytes, Mapping[str, str]], Mapping[str, Any]]:
        """Return a function that posts a body with the headers that name the request.

        `added` returns more parameters of the next request.
        """

        def post(body: bytes, headers: Mapping[str, str]) -> Mapping[str, Any]:
            answer: Mapping[str, Any] = client.post_changes(
                self.format.endpoint,
                body,
                table=self.table,
                content_type=self._content_type or content_type_of(body),
                parameters={**self.parameters, **added()},
                headers=headers,
            )
            return answer

        return post

    @property
    def _content_type(self) -> str | None:
        """The media type of all bodies, None if their bytes tell."""
        if self.format is SourceFormat.PARQUET:
            return CONTENT_TYPE
        return "text/csv" if self.format.is_csv else None
