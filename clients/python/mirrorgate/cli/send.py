"""`mirrorgate send`: post files of changes to a running gateway, in requests of a bounded size.

A combination of options that makes no sense ends with exit status 2. At the end it prints a report, for people or as
JSON.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mirrorgate.cli.console import ERRORS, INTERRUPTED, OUTPUT, print_json, say
from mirrorgate.cli.grid import Grid
from mirrorgate.cli.options import AsJson, Connection, named_values, with_connection
from mirrorgate.errors import MirrorgateError
from mirrorgate.object_store import folder_path, is_folder
from mirrorgate.parameters import CsvMode, LoadMode, RowOperation
from mirrorgate.process_memory import keep_freed_memory
from mirrorgate.source import Source, SourceFormat, format_of
from mirrorgate.text import amount

if TYPE_CHECKING:
    from mirrorgate.send.job import GivenFile, NumberedFiles, SendJob
    from mirrorgate.send.progress import Progress


def to_json(
    progress: "Progress",
    end: BaseException | None,
    producer: "NumberedFiles | None",
    load: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the report for --json. `end` is the error that ended the run, None if everything was sent.

    `load` is the load session as the gateway described it last.
    """
    error = None
    if isinstance(end, MirrorgateError):
        error = {"code": end.code, "detail": end.detail, "remedy": end.remedy, "errors": getattr(end, "errors", [])}
    named = None if producer is None else {"producer": producer.name, "sequence": producer.sequence}
    of_load = {} if load is None else {"load": load}
    return {"complete": end is None, **asdict(progress), "producer": named, **of_load, "error": error}


def summary(progress: "Progress", *, of_files: bool) -> str:
    """Return one line that says what was accepted."""
    parts = [f"accepted: {amount(progress.changes, 'change')} in {amount(progress.requests, 'request')}"]
    if of_files:
        parts.append(f"{amount(progress.files, 'file')} sent completely")
    if progress.repeated:
        parts.append(f"{amount(progress.repeated, 'request')} already durable before")
    if progress.ignored:
        parts.append(f"{amount(progress.ignored, 'message')} without a body ignored")
    if progress.duplicates:
        parts.append(f"{amount(progress.duplicates, 'duplicate')} dropped")
    return ", ".join(parts)


def load_summary(load: Mapping[str, Any]) -> str:
    """Return one line that says what a load session did."""
    parts = [f"load {load['state']}: {amount(load['rows'], 'row')}", f"{amount(load['deletes'], 'row')} deleted"]
    if load["superseded"]:
        parts.append(f"{amount(load['superseded'], 'row')} left to the stream, which changed them meanwhile")
    return ", ".join(parts)


def interruption(progress: "Progress", *, is_numbered: bool) -> str:
    """Return where Ctrl-C ended the run, and how to continue."""
    doubt = "; messages {} to {} may have been accepted too".format(*progress.in_doubt) if progress.in_doubt else ""
    text = f"interrupted: the messages before {progress.next_message} were accepted{doubt}"
    if is_numbered:
        return f"{text}\nto send the rest, run the same command again"
    return f"{text}\nto send the rest, add --from-message {progress.next_message}"


def progress_grid(progress: "Progress") -> Grid:
    """Lay out what each table has accepted."""
    numbers = ("gen", "changes", "rows", "last sequence")
    made = Grid(("table", *numbers), right=numbers)
    for name, table in progress.tables.items():
        made.add(name, str(table.generation), f"{table.changes:,}", f"{table.rows:,}", str(table.last_sequence))
    return made


_PRODUCER: Final = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
_ROWS: Final = tuple(one for one in SourceFormat if one.is_rows)
_SIGN_FORMATS: Final = (SourceFormat.CSV, SourceFormat.ROWS_CSV)
_FORMATS_OF: Final[Mapping[str, Sequence[SourceFormat]]] = {
    "override": (SourceFormat.ARCION,),
    "op": _ROWS,
    "mode": (SourceFormat.CSV, SourceFormat.ARCION),
    "columns": (SourceFormat.CSV, SourceFormat.ROWS, SourceFormat.ROWS_CSV, SourceFormat.EXCEL),
    "key_columns": (*_ROWS, SourceFormat.DEBEZIUM),
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
    """The subject of a call: its source, and how it can be continued."""

    source_format: SourceFormat
    files: Sequence["GivenFile"]
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
        if self.from_message and _are_several(self.files):
            raise typer.BadParameter("--from-message is for one file")
        if self.load is not None and (self.producer is not None or self.from_message):
            raise typer.BadParameter("--load does not accept --producer or --from-message")
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
    """Return parameters without an option, which the gateway checks. Raises BadParameter."""
    found = named_values("--parameter", texts)
    for name in found:
        if name in _FORMATS_OF or name == "table":
            raise typer.BadParameter(f"--parameter {name}=… is the option --{name.replace('_', '-')}")
        if name == "dry_run":
            raise typer.BadParameter("send stages what it sends; post a message with ?dry_run=true instead")
    return found


def check_readable(source: str) -> None:
    """Raise BadParameter for a file or folder of this machine that cannot be read."""
    path = folder_path(source)
    if source != "-" and is_folder(source) and not os.access(path, os.R_OK):
        reason = "Permission denied" if Path(path).exists() else "No such file or directory"
        raise typer.BadParameter(f"{source} cannot be read: {reason}")


def _are_several(files: Sequence["GivenFile"]) -> bool:
    return len(files) != 1 or files[0].folder is not None


@with_connection
def send(
    connection: Connection,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="Files of changes: one JSON array, NDJSON, concatenated JSON objects, CSV (plain, gzip or zstd), "
            "Parquet or Excel. A folder is all of its files, in the order of their paths; `-` reads standard input. "
            "An address such as s3://lake/orders.csv is an object, s3://lake/orders/ all below it; it needs the extra "
            "`mirrorgate[objects]`.",
        ),
    ],
    *,
    source_format: Annotated[
        SourceFormat | None,
        typer.Option(
            "--format",
            help="Format of the files. csv: Arcion CSV; rows: plain rows in JSON; rows-csv: those in CSV with a "
            "header; parquet, xlsx: those in Parquet or Excel, which need the extras `mirrorgate[dataframes]` or "
            "`mirrorgate[excel]`. Default: plain rows, by the ending: .json, .ndjson, .jsonl, .csv, .parquet or .xlsx.",
        ),
    ] = None,
    table: Annotated[str | None, typer.Option(help="Table of all messages. Required for csv and rows.")] = None,
    operation: Annotated[
        RowOperation | None, typer.Option("--op", help="rows: operation of rows without `__op__`. Default: upsert.")
    ] = None,
    override: Annotated[
        bool, typer.Option("--override", help="arcion: use --table even if messages name another table.")
    ] = False,
    mode: Annotated[
        CsvMode | None,
        typer.Option(help="csv: the mode in which Replicant wrote the file. arcion: snapshot, for bare rows."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="csv: comma-separated column names in file order. rows: name:type pairs that register the table, for "
            "example 'id:int64,total:decimal(12,2)'."
        ),
    ] = None,
    key_columns: Annotated[
        str | None,
        typer.Option(
            "--key-columns",
            help="rows: comma-separated key columns of the table in --columns. parquet, xlsx: those of a new table. "
            "debezium: those of every table.",
        ),
    ] = None,
    sheet: Annotated[str | None, typer.Option(help="xlsx: name of the sheet. Default: the first one.")] = None,
    layout: Annotated[
        str | None,
        typer.Option(help="replicate: the stored layout of messages of a custom format (`mirrorgate layouts`)."),
    ] = None,
    table_from: Annotated[
        str | None,
        typer.Option(
            "--table-from",
            help="replicate: location of the table's name in each message: `data.COLUMN`, or a JSON Pointer.",
        ),
    ] = None,
    header: Annotated[bool, typer.Option("--header", help="csv: the first record holds the column names.")] = False,
    delimiter: Annotated[str | None, typer.Option(help="csv, rows-csv: field delimiter. Default: a comma.")] = None,
    quote: Annotated[str | None, typer.Option(help="csv, rows-csv: quote character. Default: a double quote.")] = None,
    escape: Annotated[
        str | None,
        typer.Option(help="csv, rows-csv: character that escapes a quote within a field. Default: the quote."),
    ] = None,
    others: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            metavar="NAME=VALUE",
            help="Another parameter of the requests, for example tombstones=delete for debezium. Repeatable.",
        ),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="NAME=VALUE", help="An option of object storage, as endpoint=http://…. Repeatable."
        ),
    ] = None,
    max_bytes: Annotated[
        int,
        typer.Option(min=1024, help="Maximum bytes per request. A larger message is sent in its own request."),
    ] = 8 * 2**20,
    batch: Annotated[int | None, typer.Option(min=1, help="Maximum messages per request. Default: no maximum.")] = None,
    from_message: Annotated[
        int, typer.Option("--from-message", min=0, help="Start with this message of the file, counted from 0.")
    ] = 0,
    give_up_after: Annotated[
        float, typer.Option(min=0, help="Seconds to retry a request while the gateway is unreachable or busy.")
    ] = 120.0,
    load: Annotated[
        LoadMode | None,
        typer.Option(
            help="Send the files as a load of the table, which keeps row images. full: they have all rows, so the "
            "others are deleted at the end; append: they have more rows. The same command continues after a crash."
        ),
    ] = None,
    producer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Number the requests under this name, to continue exactly where a crash ended a run."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send changes to the gateway: files, folders or standard input, once and in order.

    A file is cut between messages into requests, sent in order. Each is durable before the next one is sent, and
    accepted as a whole or not at all. After a rejection, the requests before it remain accepted: fix the file and
    continue with the --from-message that the error names.

    With --producer, the gateway keeps how far the files are sent. After any end of the command (a rejection, kill -9,
    a power failure), run it again, on any machine: it continues exactly there, and sends nothing twice. Give several
    files in one command: later, a single file that sorts before the last one of its folder is rejected.

    To follow a folder into which a tool writes, use `mirrorgate bridge objects FOLDER`.

    With --load, the files become a load session (https://mirrorgate.github.io/mirrorgate/tables/reload/):
    `mirrorgate send prices.csv --format rows-csv --table shop.prices --load full` makes the table equal to the file,
    while its stream of changes continues.

    Exit status: 0 all accepted; 1 rejected; 2 wrong usage; 3 given up because the gateway was unreachable or busy; 130
    interrupted by Ctrl-C or SIGTERM.

    For example:

        mirrorgate send orders.ndjson --table shop.orders
        mirrorgate send changes/ --format arcion --producer nightly-load
        mirrorgate send s3://lake/orders/ --table shop.orders --key-columns id
    """
    from mirrorgate.send.job import SendJob, given_files

    for file in files:
        check_readable(file)
    sources = given_files(files, named_values("--option", options or ()))
    is_of_ending = source_format is None
    source_format = source_format or format_of(source.found.key for source in sources)
    given = other_parameters(others or ()) | parameters(
        source_format,
        override="true" if override else None,
        op=operation,
        mode=mode,
        columns=columns,
        key_columns=key_columns,
        layout=layout,
        table_from=table_from,
        header="true" if header else None,
        delimiter=delimiter,
        quote=quote,
        escape=escape,
    )
    if sheet is not None and source_format is not SourceFormat.EXCEL:
        raise typer.BadParameter("--sheet is for --format xlsx")
    if is_of_ending and table is None:
        raise typer.BadParameter("rows require --table; messages of a tool require --format")
    Usage(source_format, sources, table, mode, producer, load, from_message).check()
    from mirrorgate.chunking.chunks import Limits
    from mirrorgate.send.progress import ProgressDisplay

    keep_freed_memory()
    is_registered = source_format.registers and columns is None
    key = given.pop("key_columns", "").split(",") if is_registered and key_columns else ()
    source = Source(source_format, table, given, key, sheet)
    job = SendJob(source, Limits(max_bytes, batch), give_up_after, ProgressDisplay(ERRORS))
    client = connection.client()
    end: MirrorgateError | KeyboardInterrupt | None = None
    try:
        with client, job.display.running():
            if load is not None:
                job.load(client, sources, load.value)
            else:
                job.send(client, sources, from_message, producer)
    except (MirrorgateError, KeyboardInterrupt) as error:
        end = error
    _report(job, end, as_json=as_json, of_files=_are_several(sources))


def _report(job: "SendJob", end: MirrorgateError | KeyboardInterrupt | None, *, as_json: bool, of_files: bool) -> None:
    """Print what was accepted, then raise or exit unless everything was."""
    from mirrorgate.cli.send import interruption, load_summary, progress_grid, summary, to_json

    progress = job.progress
    if as_json:
        load = None if job.loaded is None else job.loaded.status
        print_json(to_json(progress, end, job.producer, load))
    elif end is None or progress.requests or progress.repeated or progress.files:
        say(summary(progress, of_files=of_files))
        if job.loaded is not None and job.loaded.status:
            say(load_summary(job.loaded.status))
        if progress.tables:
            progress_grid(progress).print(OUTPUT)
    sys.stdout.flush()  # before the error, also where both streams share a pipe
    if isinstance(end, MirrorgateError):
        raise end
    if end is not None:
        say(interruption(progress, is_numbered=job.producer is not None or job.loaded is not None), to=ERRORS)
        raise typer.Exit(INTERRUPTED)
