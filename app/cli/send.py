"""`mirrorgate send`: post files of changes to a running gateway, in requests of a bounded size."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from app.cli.common import AsJson, DataDir, Key, Url
from app.cli.send_report import described, grid, interruption, summary
from app.client.chunking.parts import Limits
from app.client.http import GatewayClient
from app.client.send.folder import UNFINISHED_NAMES, Folder, Order
from app.client.send.run import Run
from app.client.send.source import Source, SourceFormat
from app.client.send.watch import Watch
from app.errors import MirrorgateError
from app.formats.arcion.csv_layout import CsvMode

_INTERRUPTED: Final = 130
_HOME: Final = Path(".mirrorgate")
_STATE: Final = _HOME / "send"
_STANDARD_INPUT: Final = Path("-")
_PRODUCER: Final = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
_UNFINISHED: Final = ", ".join(f"`{pattern}`" for pattern in UNFINISHED_NAMES)
_FOLLOWING: Final = ("once", "order", "only", "ignored", "settle", "done_marker", "done_dir", "poll")

_console = Console()
_errors = Console(stderr=True)


def send(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="The changes: one JSON array, NDJSON, objects one after the other, or Arcion CSV; also compressed "
            "with gzip or zstd. `-` reads standard input.",
            dir_okay=False,
        ),
    ] = None,
    *,
    source_format: Annotated[SourceFormat, typer.Option("--format", help="What the file holds.")],
    table: Annotated[str | None, typer.Option(help="The table that every message is for; csv needs it.")] = None,
    override: Annotated[
        bool, typer.Option("--override", help="arcion: the messages are for --table, whatever they say.")
    ] = False,
    mode: Annotated[CsvMode | None, typer.Option(help="csv: how Replicant wrote the file; csv needs it.")] = None,
    columns: Annotated[str | None, typer.Option(help="csv: column names in file order, separated by commas.")] = None,
    header: Annotated[bool, typer.Option("--header", help="csv: the first record names the columns.")] = False,
    delimiter: Annotated[str | None, typer.Option(help="csv: what separates fields; unset: a comma.")] = None,
    quote: Annotated[str | None, typer.Option(help="csv: what encloses fields; unset: a double quote.")] = None,
    escape: Annotated[
        str | None, typer.Option(help="csv: what stands before a quote within a field; unset: the quote itself.")
    ] = None,
    max_bytes: Annotated[
        int, typer.Option(min=1024, help="Most bytes of a request; only a message that is larger makes it larger.")
    ] = 8 * 2**20,
    batch: Annotated[int | None, typer.Option(min=1, help="Most messages of a request; unset: any number.")] = None,
    from_message: Annotated[
        int, typer.Option("--from-message", "--skip-messages", min=0, help="Begin with this message, counted from 0.")
    ] = 0,
    give_up_after: Annotated[
        float, typer.Option(min=0, help="Seconds to try a request again while the gateway cannot take it.")
    ] = 120.0,
    producer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Number the requests under this name, and go on exactly after any crash."),
    ] = None,
    state_dir: Annotated[
        Path, typer.Option(help="producer: where its journal is; the same folder in every run.")
    ] = _STATE,
    follow: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Send the files of a folder, each once, in order, and those that come; needs --producer.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="follow: stop when all files that are there are sent.")] = False,
    order: Annotated[Order, typer.Option("--sort", help="follow: what decides which file comes first.")] = Order.NAME,
    only: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="follow: only files like this, for example '*.json'.")
    ] = None,
    ignored: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="PATTERN", help=f"follow: not files like this, nor {_UNFINISHED}."),
    ] = None,
    settle: Annotated[
        float, typer.Option(min=0, help="follow: a file is complete when it has not changed for so many seconds.")
    ] = 5.0,
    done_marker: Annotated[
        str | None,
        typer.Option(metavar="ENDING", help="follow: FILE is complete when FILE+ENDING is there, instead of --settle."),
    ] = None,
    done_dir: Annotated[
        Path | None,
        typer.Option(help="follow: move sent files there; unset: they stay.", exists=True, file_okay=False),
    ] = None,
    poll: Annotated[float, typer.Option(min=0.01, max=3600, help="follow: seconds between two looks.")] = 1.0,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
    as_json: AsJson = False,
) -> None:
    """Send changes: a file, standard input, or the files of a folder as they come (--follow).

    They are cut into requests between messages, which go out in order, each durable before the next begins. A
    request is accepted whole or not at all. After a rejection the requests before it stay accepted; mend the file and
    go on with --from-message, as the rejection says.

    With --producer a journal on this machine and the gateway together know what is durable. Whatever ended the
    command (a rejection, kill -9, a power cut), the same command goes on exactly there; nothing is sent twice,
    nothing is left out. A file is sent once.

    Exit status: 0 all accepted; 1 rejected; 2 wrong usage; 3 given up, the gateway was away, busy or did not answer;
    130 interrupted by Ctrl-C or SIGTERM.
    """
    csv = _csv_parameters(mode, columns, header, delimiter, quote, escape)
    if source_format is not SourceFormat.CSV and csv:
        raise typer.BadParameter(f"--{next(iter(csv))} is for --format csv")
    if source_format is SourceFormat.CSV and (table is None or mode is None):
        raise typer.BadParameter("--format csv needs --table and --mode")
    if (file is None) == (follow is None):
        raise typer.BadParameter("give either a FILE or --follow DIR")
    if follow is None and any(_is_given(context, name) for name in _FOLLOWING):
        names = "--once, --sort, --only, --ignore, --settle, --done-marker, --done-dir and --poll"
        raise typer.BadParameter(f"{names} are for --follow")
    if done_marker is not None and _is_given(context, "settle"):
        raise typer.BadParameter("give either --settle or --done-marker")
    if producer is None and _is_given(context, "state_dir"):
        raise typer.BadParameter("--state-dir is for --producer")
    if follow is not None and (producer is None or from_message):
        raise typer.BadParameter("--follow needs --producer, and goes on without --from-message")
    if producer is not None and not _PRODUCER.fullmatch(producer):
        raise typer.BadParameter("a --producer has 1 to 100 letters, digits, dots, hyphens and underscores")
    source = Source(source_format, table, override, csv)
    run = Run(source, Limits(max_bytes, batch), give_up_after, Watch(_errors))
    client = GatewayClient.find(url, key, data_dir)
    end: MirrorgateError | KeyboardInterrupt | None = None
    try:
        with client, run.watch.watching():
            if follow is not None and producer is not None:
                folder = Folder(follow, settle, order, only or ("*",), ignored or (), done_marker)
                run.follow(client, folder, producer, state_dir, once=once, poll_seconds=poll, done_folder=done_dir)
            elif file is not None and producer is not None:
                run.send_numbered(client, _readable(file), from_message, producer, state_dir)
            elif file is not None:
                run.send(client, _readable(file), from_message)
    except (MirrorgateError, KeyboardInterrupt) as error:
        end = error
    _report(run, end, as_json=as_json, of_files=follow is not None)


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _csv_parameters(
    mode: CsvMode | None,
    columns: str | None,
    header: bool,
    delimiter: str | None,
    quote: str | None,
    escape: str | None,
) -> dict[str, str]:
    """The request parameters that tell how a CSV file is written, as far as they are given."""
    texts = {"mode": mode, "columns": columns, "delimiter": delimiter, "quote": quote, "escape": escape}
    given = {name: str(value) for name, value in texts.items() if value is not None}
    return given | ({"header": "true"} if header else {})


def _readable(file: Path) -> Path:
    if file != _STANDARD_INPUT and not os.access(file, os.R_OK):
        reason = "Permission denied" if file.exists() else "No such file or directory"
        raise typer.BadParameter(f"{file} cannot be read: {reason}")
    return file


def _report(run: Run, end: MirrorgateError | KeyboardInterrupt | None, *, as_json: bool, of_files: bool) -> None:
    """Print what was accepted, whatever ended the sending; then fail unless all was."""
    if as_json:
        typer.echo(json.dumps(described(run.sent, end, run.numbering)))
    elif end is None or run.sent.requests or run.sent.repeated or run.sent.files:
        _console.print(summary(run.sent, of_files=of_files), highlight=False, soft_wrap=True)
        if run.sent.tables:
            grid(run.sent).print(_console)
    sys.stdout.flush()  # what was accepted comes before the error, also where both go into one pipe
    if isinstance(end, MirrorgateError):
        raise end
    if end is not None:
        text = interruption(run.sent, is_numbered=run.numbering is not None)
        _errors.print(text, highlight=False, soft_wrap=True)
        raise typer.Exit(_INTERRUPTED)
