"""Status of the bridge: counters of each table, for `/metrics`, `/readyz`, a progress bar and the last line."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from app.observability.periodic_thread import PeriodicThread
from mirrorgate.errors import MirrorgateError


@dataclass(frozen=True, slots=True)
class Stop:
    """The reason that a table is stopped: the object and the message in it, if one is at fault, and the error."""

    error: MirrorgateError
    key: str | None = None
    etag: str | None = None
    message: int | None = None
    since: float = 0.0


@dataclass
class TableStatus:
    """The state of one table. Only its own thread writes it, except what the listing finds."""

    source: str
    url: str
    table: str
    objects: int = 0
    messages: int = 0
    changes: int = 0
    requests: int = 0
    bytes: int = 0
    """Bytes read from the store, compressed or not."""
    waiting_objects: int = 0
    waiting_bytes: int = 0
    dead_letters: int = 0
    rejected: int = 0
    late: int = 0
    changed: int = 0
    deleted: int = 0
    last_object: str | None = None
    stop: Stop | None = None
    waits_for: str | None = None
    """Reason of the wait: the gateway or the store, with what it said."""

    def to_json(self) -> dict[str, Any]:
        """Return the status for `/readyz` and --json."""
        stop = None
        if self.stop is not None:
            error = self.stop.error
            stop = {
                "code": error.code,
                "detail": error.detail,
                "remedy": error.remedy,
                "object": self.stop.key,
                "message": self.stop.message,
                "errors": getattr(error, "errors", []),
            }
        counts = ("objects", "messages", "changes", "requests", "bytes", "dead_letters", "late", "changed", "deleted")
        return {
            "source": self.source,
            "table": self.table,
            **{name: getattr(self, name) for name in counts},
            "waiting": self.waiting_objects,
            "last_object": self.last_object,
            "waits_for": self.waits_for,
            "stopped": stop,
        }


@dataclass
class BridgeStatus:
    """The state of all tables and sources."""

    tables: list[TableStatus] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    """Sources that cannot be listed, with the reason."""
    unmatched: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, table: TableStatus) -> None:
        """Add a table that was found."""
        with self._lock:
            self.tables.append(table)

    def snapshot(self) -> list[TableStatus]:
        """Return the tables found so far."""
        with self._lock:
            return list(self.tables)

    def to_json(self) -> Mapping[str, Any]:
        """Return the facts for `/readyz`."""
        return {"tables": [table.to_json() for table in self.snapshot()], "unmatched": self.unmatched}

    def reasons(self) -> Sequence[str]:
        """Return why the bridge is not ready."""
        found = [f"{name}: {reason}" for name, reason in list(self.sources.items())]
        for table in self.snapshot():
            if table.stop is not None:
                found.append(f"{table.table or table.source} stopped: {table.stop.error.code}")
            elif table.waits_for is not None:
                found.append(f"{table.table or table.source} waits: {table.waits_for}")
        return found


@contextmanager
def showing(status: BridgeStatus, console: Console) -> Iterator[None]:
    """Show how many objects are read while the block runs. Lines on standard error appear above the bar."""
    if not console.is_terminal:
        yield
        return
    columns = (
        TextColumn("{task.fields[tables]} tables"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.fields[found]:,} objects, {task.fields[messages]:,} messages"),
        TextColumn("{task.fields[trouble]}", style="red"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=None, tables=0, found=0, messages=0, trouble="")

        def refresh() -> None:
            tables = status.snapshot()
            done = sum(table.objects for table in tables)
            stopped = sum(table.stop is not None for table in tables)
            waits = sum(table.waits_for is not None for table in tables) + len(status.sources)
            trouble = [f"{count} {what}" for count, what in ((stopped, "stopped"), (waits, "waiting")) if count]
            waiting = sum(table.waiting_objects for table in tables)
            bar.update(
                task,
                completed=done,
                total=done + waiting if waiting else None,  # a bar that is full would stop its clock
                found=done + waiting,
                tables=len(tables),
                messages=sum(table.messages for table in tables),
                trouble=", ".join(trouble),
            )

        with PeriodicThread("bridge-display", 0.2, refresh, at_end=refresh):
            yield
