"""Which options of `mirrorgate send` go together. A combination that makes no sense ends with exit status 2."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

from app.cli.options import named_values
from app.client.source import SourceFormat
from app.domain.loads.load_mode import LoadMode
from app.formats.arcion.csv_layout import CsvMode

STANDARD_INPUT: Final = Path("-")
_PRODUCER: Final = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
_SIGN_FORMATS: Final = (SourceFormat.CSV, SourceFormat.ROWS_CSV)
_FORMATS_OF: Final[Mapping[str, Sequence[SourceFormat]]] = {
    "override": (SourceFormat.ARCION,),
    "op": (SourceFormat.ROWS, SourceFormat.ROWS_CSV),
    "mode": (SourceFormat.CSV, SourceFormat.ARCION),
    "columns": (SourceFormat.CSV, SourceFormat.ROWS, SourceFormat.ROWS_CSV),
    "key_columns": (SourceFormat.ROWS, SourceFormat.ROWS_CSV, SourceFormat.DEBEZIUM),
    "layout": (SourceFormat.REPLICATE,),
    "table_from": (SourceFormat.REPLICATE,),
    "header": (SourceFormat.CSV,),
    "delimiter": _SIGN_FORMATS,
    "quote": _SIGN_FORMATS,
    "escape": _SIGN_FORMATS,
}
"""The formats that an option is for."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call is about: its source, and how it can be continued."""

    source_format: SourceFormat
    files: Sequence[Path]
    table: str | None
    mode: CsvMode | None
    producer: str | None
    load: LoadMode | None
    from_message: int

    def check(self) -> None:
        """Check everything but the parameters of the format. Raises BadParameter."""
        if self.source_format is SourceFormat.CSV and (self.mode is None or self.table is None):
            raise typer.BadParameter("--format csv requires --table and --mode")
        if self.source_format.is_rows and self.table is None:
            raise typer.BadParameter(f"--format {self.source_format} requires --table")
        is_one_file = len(self.files) == 1 and not self.files[0].is_dir()
        if (self.load is not None or self.from_message) and not is_one_file:
            raise typer.BadParameter("--load and --from-message are for one file")
        if self.load is not None and (self.producer is not None or self.from_message):
            raise typer.BadParameter("--load does not take --producer or --from-message")
        if self.load is not None and self.table is None:
            raise typer.BadParameter("--load requires --table")
        if self.producer is not None and not _PRODUCER.fullmatch(self.producer):
            raise typer.BadParameter("--producer must be 1 to 100 letters, digits, dots, hyphens or underscores")


def parameters(source_format: SourceFormat, **given: str | None) -> dict[str, str]:
    """Return the given request parameters. Raises BadParameter for one that the format does not have."""
    found = {name: str(value) for name, value in given.items() if value is not None}
    for name in found:
        formats = _FORMATS_OF[name]
        if source_format not in formats:
            raise typer.BadParameter(f"--{name.replace('_', '-')} is for --format {' and '.join(formats)}")
    return found


def other_parameters(texts: Sequence[str]) -> dict[str, str]:
    """Return parameters that have no option of their own, which the gateway checks. Raises BadParameter."""
    found = named_values("--parameter", texts)
    for name in found:
        if name in _FORMATS_OF or name == "table":
            raise typer.BadParameter(f"--parameter {name}=… is the option --{name.replace('_', '-')}")
        if name == "dry_run":
            raise typer.BadParameter("send stages what it sends; post a message with ?dry_run=true instead")
    return found


def readable(file: Path) -> Path:
    """Return a file or folder that can be read, or standard input. Raises BadParameter."""
    if file != STANDARD_INPUT and not os.access(file, os.R_OK):
        reason = "Permission denied" if file.exists() else "No such file or directory"
        raise typer.BadParameter(f"{file} cannot be read: {reason}")
    return file
