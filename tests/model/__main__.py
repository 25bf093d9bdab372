"""`make model`: random tables and changes against a whole gateway. Exits 1 if what landed differs from the model."""

import argparse
import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tests.model.fold import Difference
from tests.model.gateway import Gateway, small_gateway_alone, whole_gateway
from tests.model.history import History, Outcome

PLACE: Final = Path(__file__).resolve().parents[2] / ".model"
USUAL_CHANGES: Final = 2_500
"""Of a table, unless `--tables` says how many tables there are."""
MAX_DIFFERENCES: Final = 5

console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


class Run:
    """Tables of one seed against one gateway."""

    def __init__(self, gateway: Gateway, seed: int, changes: int, tables: int) -> None:
        self._gateway, self._seed, self._changes, self._tables = gateway, seed, changes, tables
        self.total = Outcome()
        self.histories = 0
        self.options: set[str] = set()
        self.differences: list[str] = []
        self._lock = threading.Lock()

    def table(self, number: int, advance: Callable[[int], None]) -> None:
        """Run the history of a table, and keep what came of it."""
        if self._gateway.stop.is_set():
            return
        name, share = f"model.t{number:04d}", max(1, self._changes // self._tables)
        history = History(self._gateway, f"{self._seed}/{number}", name, share, advance)
        problem = None
        try:
            history.run()
        except Difference as difference:
            problem = str(difference)
        except Exception as error:  # noqa: BLE001  # a fault of the model is told with the place that it was at
            if not self._gateway.stop.is_set():
                problem = f"{type(error).__name__}: {error}"
        finally:
            self._gateway.close()
        with self._lock:
            self._add(history, number, problem)

    def _add(self, history: History, number: int, problem: str | None) -> None:
        self.histories += 1
        self.options.add(history.options)
        self.total.events += history.outcome.events
        self.total.changes += history.outcome.changes
        self.total.rows += history.outcome.rows
        self.total.files += history.outcome.files
        if problem is None:
            return
        replay = f"--seed {self._seed} --changes {self._changes} --tables {self._tables} --only {number}"
        told = (
            f"{history.place}: {problem}",
            f"  at {history.step}",
            f"  options: {history.options}",
            f"  columns: {', '.join(f'{c.name} {c.declared}' for c in history.spec.columns)}; key {history.spec.keys}",
            f"  replay: python -m tests.model {replay}",
        )
        self.differences.append("\n".join(told))
        if len(self.differences) >= MAX_DIFFERENCES:
            self._gateway.stop.set()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--changes", type=int, default=100_000, help="changes of all tables (default: 100000)")
    parser.add_argument("--seed", type=int, default=2026, help="seed of the tables and changes (default: 2026)")
    parser.add_argument("--tables", type=int, help=f"number of tables (default: one for {USUAL_CHANGES} changes)")
    parser.add_argument("--minutes", type=float, help="begin no table after so many minutes")
    parser.add_argument("--only", type=int, help="run the table of this number alone")
    parser.add_argument("--threads", type=int, default=4, help="tables at a time (default: 4)")
    parser.add_argument("--small", action="store_true", help="the gateway's parts in this process, without Spark")
    arguments = parser.parse_args()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    shutil.rmtree(PLACE, ignore_errors=True)
    tables = arguments.tables or max(1, arguments.changes // USUAL_CHANGES)
    numbers = [arguments.only] if arguments.only is not None else [*range(tables)]
    began = time.monotonic()
    with small_gateway_alone(PLACE) if arguments.small else whole_gateway(PLACE) as gateway:
        run = Run(gateway, arguments.seed, arguments.changes, tables)
        interrupted = drive(run, gateway, numbers, arguments)
    report(run, time.monotonic() - began)
    if interrupted:
        console.print("Stopped.")
        return 130
    return 1 if run.differences or (run.histories < len(numbers) and arguments.minutes is None) else 0


def drive(run: Run, gateway: Gateway, numbers: list[int], arguments: argparse.Namespace) -> bool:
    """Run all tables, some at a time; return whether Ctrl-C ended it."""
    end = time.monotonic() + 60 * (arguments.minutes or 10**6)
    with progress(arguments.changes * len(numbers) // max(1, arguments.tables or len(numbers))) as advance:
        pool = ThreadPoolExecutor(arguments.threads, thread_name_prefix="table")

        def one(number: int) -> None:
            if time.monotonic() < end:
                run.table(number, advance)

        try:
            for result in [pool.submit(one, number) for number in numbers]:
                result.result()
        except KeyboardInterrupt:
            return True
        finally:
            gateway.stop.set()
            pool.shutdown(cancel_futures=True)
    return False


@contextmanager
def progress(total: int) -> Iterator[Callable[[int], None]]:
    """Yield what moves the bar by a number of changes."""
    columns = (TextColumn("changes"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("changes", total=total)
        yield lambda changes: bar.advance(task, changes)


def report(run: Run, seconds: float) -> None:
    events: Counter[str] = run.total.events
    console.print(", ".join(f"{what} {count:,}" for what, count in sorted(events.items())))
    for difference in run.differences:
        console.print(f"DIFFERENCE {difference}")
    verdict = f"{len(run.differences)} DIFFERENCES" if run.differences else "no difference"
    console.print(
        f"{run.total.changes:,} changes, {len(run.options)} combinations of options, {run.histories} tables; "
        f"{run.total.rows:,} rows in {run.total.files:,} files compared in {seconds:.0f} s: {verdict}."
    )


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
