"""Which options of `mirrorgate send` go together. A combination that makes no sense ends with exit status 2."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

from app.cli.options import named_values
from app.client.file_paths import PathTemplate
from app.client.send.source import SourceFormat
from app.domain.loads.load_mode import LoadMode
from app.errors import Misconfigured
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
_FOLLOW_OPTIONS: Final = (
    "once",
    "recursive",
    "table_from_path",
    "order",
    "only",
    "ignored",
    "settle",
    "done_marker",
    "done_dir",
    "poll",
)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call is about: its source, and how it can be continued. Methods raise BadParameter."""

    given: Collection[str]
    """The options that are on the command line."""
    source_format: SourceFormat
    file: Path | None
    follow: Path | None
    table: str | None
    mode: CsvMode | None
    templates: Sequence[PathTemplate]
    producer: str | None
    load: LoadMode | None
    from_message: int

    def check(self) -> None:
        """Check everything but the parameters of the format."""
        self._check_table()
        self._check_source()
        self._check_continuation()

    def _check_table(self) -> None:
        if self.source_format is SourceFormat.CSV and not (self._has_mode and (self.table or self.templates)):
            raise typer.BadParameter("--format csv requires --table and --mode")
        if self.source_format.is_rows and self.table is None and not self.templates:
            raise typer.BadParameter(f"--format {self.source_format} requires --table")
        if self.table is not None and self.templates:
            raise typer.BadParameter("give either --table or --table-from-path")

    @property
    def _has_mode(self) -> bool:
        of_templates = bool(self.templates) and all("{mode}" in template.text for template in self.templates)
        return self.mode is not None or of_templates

    def _check_source(self) -> None:
        if (self.file is None) == (self.follow is None):
            raise typer.BadParameter("give either a FILE or --follow DIR")
        if self.follow is None and any(name in self.given for name in _FOLLOW_OPTIONS):
            names = (
                "--once, --recursive, --table-from-path, --sort, --only, --ignore, --settle, --done-marker, --done-dir"
            )
            raise typer.BadParameter(f"{names} and --poll are for --follow")
        if {"done_marker", "settle"} <= set(self.given):
            raise typer.BadParameter("give either --settle or --done-marker")

    def _check_continuation(self) -> None:
        if self.producer is None and self.load is None and "state_dir" in self.given:
            raise typer.BadParameter("--state-dir is for --producer and --load")
        if self.load is not None and (self.follow is not None or self.producer is not None or self.from_message):
            raise typer.BadParameter("--load does not take --follow, --producer or --from-message")
        if self.follow is not None and (self.producer is None or self.from_message):
            raise typer.BadParameter("--follow requires --producer and does not take --from-message")
        if self.load is not None and self.table is None:
            raise typer.BadParameter("--load requires --table")
        if self.producer is not None and not _PRODUCER.fullmatch(self.producer):
            raise typer.BadParameter("--producer must be 1 to 100 letters, digits, dots, hyphens or underscores")


def given_options(context: typer.Context) -> frozenset[str]:
    """Return the names of the options that are on the command line."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")


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


def path_templates(texts: Sequence[str], source_format: SourceFormat) -> list[PathTemplate]:
    """Return the templates of tables. Raises BadParameter."""
    for name in ("mode", "op"):
        if source_format not in _FORMATS_OF[name] and any(f"{{{name}}}" in text for text in texts):
            raise typer.BadParameter(f"{{{name}}} is for --format {' and '.join(_FORMATS_OF[name])}")
    try:
        return [PathTemplate.parse(text) for text in texts]
    except Misconfigured as error:
        raise typer.BadParameter(f"{error.detail}. {error.remedy}") from error


def readable(file: Path) -> Path:
    """Return a file that can be read, or standard input. Raises BadParameter."""
    if file != STANDARD_INPUT and not os.access(file, os.R_OK):
        reason = "Permission denied" if file.exists() else "No such file or directory"
        raise typer.BadParameter(f"{file} cannot be read: {reason}")
    return file
