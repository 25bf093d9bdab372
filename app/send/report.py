"""What `mirrorgate send` says at its end: for people and for scripts."""

from dataclasses import asdict
from typing import Any

from rich.table import Table as Grid

from app.errors import MirrorgateError
from app.send.numbering import Numbering
from app.send.sender import Sent


def described(sent: Sent, end: BaseException | None, numbering: Numbering | None) -> dict[str, Any]:
    """All of it, as JSON has it. `end` is what ended the sending, None for the end of what there was."""
    error = None
    if isinstance(end, MirrorgateError):
        error = {"code": end.code, "detail": end.detail, "remedy": end.remedy, "errors": getattr(end, "errors", [])}
    producer = None if numbering is None else {"producer": numbering.producer, "sequence": numbering.durable}
    return {"complete": end is None, **asdict(sent), "producer": producer, "error": error}


def summary(sent: Sent, *, of_files: bool) -> str:
    """What was accepted, in one line."""
    parts = [f"accepted: {sent.changes:,} changes in {sent.requests:,} requests"]
    if of_files:
        parts.append(f"{sent.files:,} files sent to their end")
    if sent.repeated:
        parts.append(f"{sent.repeated:,} requests found durable from before")
    if sent.ignored:
        parts.append(f"{sent.ignored:,} messages without a body ignored")
    if sent.duplicates:
        parts.append(f"{sent.duplicates:,} duplicates dropped")
    return ", ".join(parts)


def interruption(sent: Sent, *, is_numbered: bool) -> str:
    """Where Ctrl-C ended it, and how to go on."""
    doubt = "; messages {} to {} may have been accepted too".format(*sent.in_doubt) if sent.in_doubt else ""
    text = f"interrupted: the messages before {sent.next_message} were accepted{doubt}"
    if is_numbered:
        return f"{text}\nthe rest: run the same command again"
    return f"{text}\nthe rest: --from-message {sent.next_message}"


def grid(sent: Sent) -> Grid:
    """What each table has taken."""
    grid = Grid(box=None, header_style="bold")
    grid.add_column("table")
    for title in ("gen", "changes", "rows", "last sequence"):
        grid.add_column(title, justify="right")
    for name, table in sent.tables.items():
        grid.add_row(name, str(table.generation), f"{table.changes:,}", f"{table.rows:,}", str(table.last_sequence))
    return grid
