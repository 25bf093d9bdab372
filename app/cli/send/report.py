"""The report that `mirrorgate send` prints at its end, for people and as JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from app.cli.output import Grid, counted
from app.client.send.job import NumberedFiles
from app.client.send.progress import Progress
from app.errors import MirrorgateError


def to_json(
    progress: Progress, end: BaseException | None, producer: NumberedFiles | None, load: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the report for --json. `end` is the error that ended the run, None if everything was sent.

    `load` is the load session as the gateway described it last.
    """
    error = None
    if isinstance(end, MirrorgateError):
        error = {"code": end.code, "detail": end.detail, "remedy": end.remedy, "errors": getattr(end, "errors", [])}
    numbers = None if producer is None else producer.numbers
    named = None if numbers is None else {"producer": numbers.name, "sequence": numbers.sequence}
    of_load = {} if load is None else {"load": load}
    return {"complete": end is None, **asdict(progress), "producer": named, **of_load, "error": error}


def summary(progress: Progress, *, of_files: bool) -> str:
    """Return one line that says what was accepted."""
    parts = [f"accepted: {counted(progress.changes, 'change')} in {counted(progress.requests, 'request')}"]
    if of_files:
        parts.append(f"{counted(progress.files, 'file')} sent completely")
    if progress.repeated:
        parts.append(f"{counted(progress.repeated, 'request')} already durable before")
    if progress.ignored:
        parts.append(f"{counted(progress.ignored, 'message')} without a body ignored")
    if progress.duplicates:
        parts.append(f"{counted(progress.duplicates, 'duplicate')} dropped")
    return ", ".join(parts)


def load_summary(load: Mapping[str, Any]) -> str:
    """Return one line that says what a load session did."""
    parts = [f"load {load['state']}: {counted(load['rows'], 'row')}", f"{counted(load['deletes'], 'row')} deleted"]
    if load["superseded"]:
        parts.append(f"{counted(load['superseded'], 'row')} left to the stream, which changed them meanwhile")
    return ", ".join(parts)


def interruption(progress: Progress, *, is_numbered: bool) -> str:
    """Return where Ctrl-C ended the run, and how to continue."""
    doubt = "; messages {} to {} may have been accepted too".format(*progress.in_doubt) if progress.in_doubt else ""
    text = f"interrupted: the messages before {progress.next_message} were accepted{doubt}"
    if is_numbered:
        return f"{text}\nto send the rest, run the same command again"
    return f"{text}\nto send the rest, add --from-message {progress.next_message}"


def progress_grid(progress: Progress) -> Grid:
    """Lay out what each table has accepted."""
    numbers = ("gen", "changes", "rows", "last sequence")
    made = Grid(("table", *numbers), right=numbers)
    for name, table in progress.tables.items():
        made.add(name, str(table.generation), f"{table.changes:,}", f"{table.rows:,}", str(table.last_sequence))
    return made
