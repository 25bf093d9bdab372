"""`mirrorgate send`: post files of changes to a running gateway, in requests of a bounded size."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.console import ERRORS, OUTPUT, say
from app.cli.exit_status import INTERRUPTED
from app.cli.options import AsJson, Connection, with_connection
from app.cli.send.usage import Usage, other_parameters, parameters, readable
from app.client.source import Source, SourceFormat
from app.domain.loads.load_mode import LoadMode
from app.errors import MirrorgateError
from app.formats.arcion.csv_layout import CsvMode
from app.formats.rows.operations import RowOperation
from app.process_memory import keep_freed_memory

if TYPE_CHECKING:
    from app.client.send.job import SendJob


@with_connection
def send(
    connection: Connection,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="Files of changes: one JSON array, NDJSON, concatenated JSON objects, or CSV; plain, gzip or zstd. A "
            "folder is all of its files, in the order of their paths; `-` reads standard input.",
        ),
    ],
    *,
    source_format: Annotated[
        SourceFormat,
        typer.Option(
            "--format",
            help="Format of the file. csv: Arcion CSV; rows: plain rows in JSON; rows-csv: those in CSV with a header.",
        ),
    ],
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
            help="rows: comma-separated key columns of the table in --columns. debezium: those of every table.",
        ),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(help="replicate: the stored layout of messages of a custom format (`mirrorgate layouts`)."),
    ] = None,
    table_from: Annotated[
        str | None,
        typer.Option(
            "--table-from", help="replicate: where each message names its table: data.<column>, or a JSON Pointer."
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
            help="Another parameter of the requests (docs/formats.md), for example tombstones=delete for debezium. "
            "Repeatable.",
        ),
    ] = None,
    max_bytes: Annotated[
        int, typer.Option(min=1024, help="Maximum bytes per request. A larger message is sent in its own request.")
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
            help="Send the one file as a load of the table, which keeps row images. full: it has all rows, so the "
            "others are deleted at the end; append: it has more rows. The same command continues after a crash."
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
    accepted as a whole or not at all. After a rejection, the requests before it stay accepted: fix the file and
    continue with the --from-message that the error names.

    With --producer, the gateway keeps how far the files are sent. Whatever ended the command (a rejection, kill -9,
    a power failure), run it again, on any machine: it continues exactly there, and sends nothing twice.

    To follow a folder into which a tool writes, use `mirrorgate bridge objects FOLDER`.

    With --load, the file becomes a load session (docs/loads.md): `mirrorgate send prices.csv --format rows-csv --table
    shop.prices --load full` makes the table equal to the file, while its stream of changes continues.

    Exit status: 0 all accepted; 1 rejected; 2 wrong usage; 3 given up because the gateway was unreachable or busy; 130
    interrupted by Ctrl-C or SIGTERM.

    Examples: `mirrorgate send orders.ndjson --format rows --table shop.orders`,
    `mirrorgate send changes/ --format arcion --producer nightly-load`
    """
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
    Usage(source_format, files, table, mode, producer, load, from_message).check()
    from app.client.chunking.chunks import Limits
    from app.client.send.job import SendJob
    from app.client.send.progress import ProgressDisplay

    keep_freed_memory()
    source = Source(source_format, table, given)
    job = SendJob(source, Limits(max_bytes, batch), give_up_after, ProgressDisplay(ERRORS))
    client = connection.client()
    end: MirrorgateError | KeyboardInterrupt | None = None
    try:
        with client, job.display.running():
            paths = [readable(file) for file in files]
            if load is not None:
                job.load(client, paths[0], load.value)
            else:
                job.send(client, paths, from_message, producer)
    except (MirrorgateError, KeyboardInterrupt) as error:
        end = error
    _report(job, end, as_json=as_json, of_files=len(files) > 1 or files[0].is_dir())


def _report(job: "SendJob", end: MirrorgateError | KeyboardInterrupt | None, *, as_json: bool, of_files: bool) -> None:
    """Print what was accepted, then raise or exit unless everything was."""
    from app.cli.send.report import interruption, load_summary, progress_grid, summary, to_json

    progress = job.progress
    if as_json:
        load = None if job.loaded is None else job.loaded.status
        typer.echo(json.dumps(to_json(progress, end, job.producer, load)))
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
