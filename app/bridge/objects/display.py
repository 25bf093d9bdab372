"""The progress bar of the bridge, in a terminal only."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from app.bridge.objects.status import BridgeStatus
from app.observability.periodic_thread import PeriodicThread


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
