"""`mirrorgate send`: post a file of changes to a running gateway, in requests of a bounded size."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table as Grid

from app.cli_remote import AsJson, DataDir, Key, Url
from app.client import GatewayClient
from app.formats.csv_layout import CsvLayout, CsvMode
from app.send.sender import CHUNK_BYTES, NotSent, Sender, Sent
from app.send.watch import Watch
from app.splitting.csv_records import split_csv
from app.splitting.json_messages import split_json
from app.splitting.parts import Limits, Splitter

_INTERRUPTED: Final = 130
_HOME: Final = Path(".mirrorgate")
_STANDARD_INPUT: Final = Path("-")

_console = Console()
_errors = Console(stderr=True)


class SourceFormat(StrEnum):
    """What a file holds."""

    ARCION = "arcion"
    REPLICATE = "replicate"
    CSV = "csv"


def send(
    file: Annotated[
        Path,
        typer.Argument(
            help="The changes: one JSON array, NDJSON, objects one after the other, or Arcion CSV. "
            "`-` reads standard input.",
            dir_okay=False,
        ),
    ],
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
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
    as_json: AsJson = False,
) -> None:
    """Send a file of changes, cut into requests between messages: in order, each durable before the next begins.

    A request is accepted whole or not at all. After a refusal the requests before it stay accepted; mend the file
    and go on with --from-message, as the refusal says.
    """
    csv = _csv_parameters(mode, columns, header, delimiter, quote, escape)
    if source_format is not SourceFormat.CSV and csv:
        raise typer.BadParameter(f"--{next(iter(csv))} is for --format csv")
    if source_format is SourceFormat.CSV and (table is None or mode is None):
        raise typer.BadParameter("--format csv needs --table and --mode")
    watch = Watch(_errors, file.stat().st_size if file.is_file() else None)
    with GatewayClient.find(url, key, data_dir) as client, _opened(file) as stream, watch.watching():
        post_changes = partial(
            client.post_changes,
            "replicate" if source_format is SourceFormat.REPLICATE else "arcion",
            table=table,
            content_type="text/csv" if source_format is SourceFormat.CSV else "application/json",
            parameters=csv | ({"override": "true"} if override else {}),
        )

        def post(body: bytes, idempotency_key: str) -> Mapping[str, Any]:
            answer: Mapping[str, Any] = post_changes(body, key=idempotency_key)
            return answer

        sender = Sender(watch.awaiting(post), _splitter(csv), give_up_after, time.sleep, watch.accepted, watch.waits)
        chunks = iter(lambda: stream.read1(CHUNK_BYTES), b"")
        end = _end_of(partial(sender.send, chunks, Limits(max_bytes, batch), from_message))
    _report(sender.sent, end, as_json)


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


def _splitter(csv: Mapping[str, str]) -> Splitter:
    if not csv:
        return split_json
    quote = csv.get("quote", '"')
    columns = tuple(csv["columns"].split(",")) if csv.get("columns") else ()
    signs = (csv.get("delimiter", ","), quote, csv.get("escape", quote))
    return partial(split_csv, layout=CsvLayout(CsvMode(csv["mode"]), columns, "header" in csv, *signs))


def _opened(file: Path) -> BufferedReader:
    try:
        return open(0, "rb", closefd=False) if file == _STANDARD_INPUT else file.open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error


def _end_of(sending: Callable[[], None]) -> NotSent | KeyboardInterrupt | None:
    """What ended it, None for the end of the file."""
    try:
        sending()
    except (NotSent, KeyboardInterrupt) as end:
        return end
    return None


def _report(sent: Sent, end: NotSent | KeyboardInterrupt | None, as_json: bool) -> None:
    """Print what was accepted, whatever ended the sending; then fail unless all was."""
    if as_json:
        typer.echo(json.dumps(_described(sent, end)))
    else:
        ignored = f", {sent.ignored:,} messages without a body ignored" if sent.ignored else ""
        dropped = f", {sent.duplicates:,} duplicates dropped" if sent.duplicates else ""
        text = f"accepted: {sent.changes:,} changes in {sent.requests:,} requests{ignored}{dropped}"
        _console.print(text, highlight=False, soft_wrap=True)
        if sent.tables:
            _console.print(_grid(sent))
    if isinstance(end, NotSent):
        raise end
    if end is not None:
        doubt = "; messages {} to {} may have been accepted too".format(*sent.in_doubt) if sent.in_doubt else ""
        text = f"interrupted: the messages before {sent.next_message} were accepted{doubt}"
        _errors.print(text, highlight=False, soft_wrap=True)
        _errors.print(f"the rest: --from-message {sent.next_message}", highlight=False)
        raise typer.Exit(_INTERRUPTED)


def _described(sent: Sent, end: NotSent | KeyboardInterrupt | None) -> dict[str, Any]:
    error = None
    if isinstance(end, NotSent):
        error = {"code": end.code, "detail": end.detail, "remedy": end.remedy, "errors": end.errors}
    return {"complete": end is None, **asdict(sent), "error": error}


def _grid(sent: Sent) -> Grid:
    grid = Grid(box=None, header_style="bold")
    grid.add_column("table")
    for title in ("gen", "changes", "rows", "last sequence"):
        grid.add_column(title, justify="right")
    for name, table in sent.tables.items():
        grid.add_row(name, str(table.generation), f"{table.changes:,}", f"{table.rows:,}", str(table.last_sequence))
    return grid
