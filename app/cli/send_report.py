"""What `mirrorgate send` says at its end: for people and for scripts."""

from dataclasses import asdict
from typing import Any

from app.cli.output import Grid, counted
from app.client.send.numbering import Numbering
from app.client.send.sender import Sent
from app.errors import MirrorgateError


def described(sent: Sent, end: BaseException | None, numbering: Numbering | None) -> dict[str, Any]:
    """All of it, as JSON has it. `end` is what ended the sending, None for the end of what there was."""
    error = None
    if isinstance(end, MirrorgateError):
        error = {"code": end.code, "detail": end.detail, "remedy": end.remedy, "errors": getattr(end, "errors", [])}
    producer = None if numbering is None else {"producer": numbering.producer, "sequence": numbering.durable}
    return {"complete": end is None, **asdict(sent), "producer": producer, "error": error}


def summary(sent: Sent, *, of_files: bool) -> str:
    """What was accepted, in one line."""
    parts = [f"accepted: {counted(sent.changes, 'change')} in {counted(sent.requests, 'request')}"]
    if of_files:
        parts.append(f"{counted(sent.files, 'file')} sent to the end")
    if sent.repeated:
        parts.append(f"{counted(sent.repeated, 'request')} found durable from before")
    if sent.ignored:
        parts.append(f"{counted(sent.ignored, 'message')} without a body ignored")
    if sent.duplicates:
        parts.append(f"{counted(sent.duplicates, 'duplicate')} dropped")
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
    numbers = ("gen", "changes", "rows", "last sequence")
    made = Grid(("table", *numbers), right=numbers)
    for name, table in sent.tables.items():
        made.add(name, str(table.generation), f"{table.changes:,}", f"{table.rows:,}", str(table.last_sequence))
    return made
