"""What a file of changes contains, how to cut it, and how to tell the gateway to read it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from app.client.chunking.chunks import Splitter
from app.client.chunking.csv_records import split_csv
from app.client.chunking.json_messages import split_json
from app.formats.arcion.csv_layout import CsvLayout, CsvMode

if TYPE_CHECKING:
    from app.client.http import GatewayClient


class SourceFormat(StrEnum):
    """Format of a file."""

    ARCION = "arcion"
    REPLICATE = "replicate"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class Source:
    """The format of all files of a run. `csv` holds the request parameters that describe a CSV layout."""

    format: SourceFormat
    table: str | None = None
    override: bool = False
    csv: Mapping[str, str] = field(default_factory=dict)

    @property
    def split(self) -> Splitter:
        """The function that cuts a stream between messages."""
        if self.format is not SourceFormat.CSV:
            return split_json
        quote = self.csv.get("quote", '"')
        columns = tuple(self.csv["columns"].split(",")) if self.csv.get("columns") else ()
        signs = (self.csv.get("delimiter", ","), quote, self.csv.get("escape", quote))
        layout = CsvLayout(CsvMode(self.csv["mode"]), columns, "header" in self.csv, *signs)
        return partial(split_csv, layout=layout)

    def poster(self, client: "GatewayClient") -> Callable[[bytes, Mapping[str, str]], Mapping[str, Any]]:
        """Return a function that posts a body with the headers that name the request."""

        def post(body: bytes, headers: Mapping[str, str]) -> Mapping[str, Any]:
            answer: Mapping[str, Any] = client.post_changes(
                "replicate" if self.format is SourceFormat.REPLICATE else "arcion",
                body,
                table=self.table,
                content_type="text/csv" if self.format is SourceFormat.CSV else "application/json",
                parameters={**self.csv, **({"override": "true"} if self.override else {})},
                headers=headers,
            )
            return answer

        return post
