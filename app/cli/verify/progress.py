"""The progress of `mirrorgate verify`: tables done, with the files of the present one as a fraction."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar

from app.verify.zone_verification import Progress


@contextmanager
def progress_bar(console: Console, *, hidden: bool) -> Iterator[Progress]:
    """Yield what shows the progress on a terminal during the block; nothing elsewhere."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[tables]} tables"),
        TimeElapsedColumn(),
    )
    with ProgressBar(*columns, console=console, transient=True, disable=hidden or not console.is_terminal) as bar:
        task = bar.add_task("listing", total=None, tables="0")

        def show(table: str, done: float, total: int) -> None:
            bar.update(task, description=table, completed=done, total=total or None, tables=f"{int(done):,}/{total:,}")

        yield show
