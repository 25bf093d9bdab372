"""`--once`: progress on a terminal, and in the end what was applied and which tables need attention."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from app.domain.mirror.table_report import MirrorState, TableReport
from app.observability.mirror_metrics import applied_counts

_FINE = (MirrorState.IN_STEP, MirrorState.DROPPED)


@contextmanager
def progress_shown(console: Console, reports: Callable[[], Sequence[TableReport]]) -> Iterator[Callable[[], None]]:
    """Yield a function that shows how many landing files are applied, if the console is a terminal."""
    columns = (TextColumn("Mirroring files"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("files", total=None)

        def update() -> None:
            found = reports()
            applied = sum(report.file_number for report in found)
            bar.update(task, completed=applied, total=applied + sum(report.pending_files for report in found))

        yield update


def tell_result(console: Console, reports: Sequence[TableReport], seconds: float) -> bool:
    """Print what was applied, and each table that is not in step with its reason and remedy.

    Return whether every table is in step.
    """
    left = [report for report in reports if report.code is not None or report.state not in _FINE]
    files, rows = applied_counts()
    applied = f"applied {files:,} files with {rows:,} rows in {seconds:.1f} s"
    _say(console, f"{len(reports):,} tables, {len(left):,} not in step; {applied}")
    for report in left:
        reason = "not finished" if report.code is None else f"{report.code}: {report.detail}"
        _say(console, f"{report.table}: {report.state}: {reason}")
        if report.remedy:
            _say(console, f"  remedy: {report.remedy}")
    return not left


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
