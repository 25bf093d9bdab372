"""What a file of changes holds, and how the gateway is told to read it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

from app.client.chunking.csv_records import split_csv
from app.client.chunking.json_messages import split_json
from app.client.chunking.parts import Splitter
from app.client.http import GatewayClient
from app.formats.arcion.csv_layout import CsvLayout, CsvMode


class SourceFormat(StrEnum):
    """What a file holds."""

    ARCION = "arcion"
    REPLICATE = "replicate"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class Source:
    """How all files of a run are written. `csv` has the request parameters of a CSV layout that are given."""

    format: SourceFormat
    table: str | None = None
    override: bool = False
    csv: Mapping[str, str] = field(default_factory=dict)

    @property
    def split(self) -> Splitter:
        """Cuts a stream between messages."""
        if self.format is not SourceFormat.CSV:
            return split_json
        quote = self.csv.get("quote", '"')
        columns = tuple(self.csv["columns"].split(",")) if self.csv.get("columns") else ()
        signs = (self.csv.get("delimiter", ","), quote, self.csv.get("escape", quote))
        layout = CsvLayout(CsvMode(self.csv["mode"]), columns, "header" in self.csv, *signs)
        return partial(split_csv, layout=layout)

    def poster(self, client: GatewayClient) -> Callable[[bytes, Mapping[str, str]], Mapping[str, Any]]:
        """Posts a body under the headers that name the request."""

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
