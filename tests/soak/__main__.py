"""`make soak HOURS=n`: steady load on a whole gateway. Exits 1 for growth, a rejected change or a wrong row."""

import argparse
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from app.local.embedded import running_url
from app.staging.connection.database import open_engine
from benchmarks.machine.description import describe_machine, describe_versions
from benchmarks.machine.process_facts import children
from demo.gateway import admin_key, running_gateway
from demo.mirror_reader import mirrored_rows, open_mirrored
from mirrorgate.http import GatewayClient
from tests.soak.consumer import consume
from tests.soak.growth import MIN_SAMPLES, growth_of
from tests.soak.load import Load, SteadyTable, register, steady_tables
from tests.soak.measures import ALLOWED, measure_chain, sample
from tests.soak.report import Outcome, page

PLACE: Final = Path(__file__).resolve().parents[2] / ".soak"
SETTLE_SECONDS: Final = 120.0
SETTINGS: Final = {
    "RETENTION_DAYS": "0.01",
    "RETENTION_BYTES": str(32 * 2**20),
    "HISTORY_DAYS": "0.01",
    "AUDIT_DAYS": "0.01",
}
"""Short retention, so that what is kept for days by default is flat within the run."""

console = Console(highlight=False, soft_wrap=True)


class SoakFailed(Exception):
    """The gateway lost, changed or rejected something, or grew."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="how long the load lasts (default: 1)")
    parser.add_argument("--rate", type=float, default=2.0, help="requests per second and table (default: 2)")
    parser.add_argument("--seed", type=int, default=2026, help="seed of the changes")
    parser.add_argument("--report", type=Path, help="write the page here, such as docs/contribute/soak.md")
    arguments = parser.parse_args()
    shutil.rmtree(PLACE, ignore_errors=True)
    os.environ.update({f"MIRRORGATE_{name}": value for name, value in SETTINGS.items()})
    machine = describe_machine()
    try:
        outcome = soak(PLACE, 3_600 * arguments.hours, arguments.rate, arguments.seed)
    except SoakFailed as failure:
        console.print(f"[bold red]The soak run failed:[/bold red] {failure}. The logs are in {PLACE.name}/.")
        return 1
    except KeyboardInterrupt:
        console.print("Stopped.")
        return 130
    text = page(outcome, machine, describe_versions(), f"{datetime.now(UTC):%Y-%m-%d}")
    console.print(text, markup=False)
    if arguments.report is not None:
        arguments.report.write_text(text)
    grown = [growth.name for growth in outcome.growth if not growth.is_flat]
    if grown:
        console.print(f"[bold red]Grew:[/bold red] {', '.join(grown)}")
    return 1 if grown else 0


def soak(place: Path, seconds: float, rate: float, seed: int) -> Outcome:
    """Run a gateway in `place` under load for so long, and compare what landed. Raises SoakFailed."""
    with ExitStack() as stack:
        url = stack.enter_context(running_gateway(place, mirror=True))
        engine = stack.enter_context(_engine(place))
        client = stack.enter_context(GatewayClient(url, admin_key(place)))
        tables = steady_tables(seed)
        register(client, tables)
        load = Load(client, tables, rate)
        began = time.monotonic()
        load.start()
        try:
            samples = _watch(place, engine, client, load, seconds)
        finally:
            load.end()
        if load.failure is not None:
            raise SoakFailed(f"a request failed: {load.failure}") from load.failure
        lasted = time.monotonic() - began
        _wait_until_landed(client, tables)
        mirrored = _compare_mirror(place / "mirror", tables)
        chain = measure_chain(engine)
    totals = [sum(getattr(steady, name) for steady in tables) for name in ("changes", "landed", "rejected")]
    return Outcome(lasted, *totals, mirrored, *chain, growth_of(samples, ALLOWED))


def _watch(place: Path, engine: sa.Engine, client: GatewayClient, load: Load, seconds: float) -> list[dict[str, float]]:
    """Take a sample at equal distances until the time is up or the load has failed; act as Fabric and operators do."""
    every = max(1.0, min(30.0, seconds / (4 * MIN_SAMPLES)))
    up = _up_process()
    samples, began = [], time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("soak", total=seconds)
        while (passed := time.monotonic() - began) < seconds and not load.stop.wait(every):
            progress.update(bar, completed=passed)
            consume(place / "landing-zone")
            for page_of_operators in ("/v1/tables", "/statusz"):
                client.get(page_of_operators)
            samples.append(sample(up, place, engine))
    return samples


def _wait_until_landed(client: GatewayClient, tables: list[SteadyTable]) -> None:
    """Wait until the counters of every table say that all of its rows are published and mirrored."""
    deadline = time.monotonic() + SETTLE_SECONDS
    wanted = {steady.table.name: steady.landed for steady in tables}
    while (found := _published(client, wanted)) != wanted:
        if time.monotonic() > deadline:
            raise SoakFailed(f"rows that must land: {wanted}; published: {found}")
        threading.Event().wait(0.5)


def _published(client: GatewayClient, wanted: dict[str, int]) -> dict[str, int]:
    return {name: client.get(f"/v1/tables/{name}")["published"]["rows"] for name in wanted}


def _compare_mirror(target: Path, tables: list[SteadyTable]) -> int:
    """Compare the Delta tables with the rows of the source, once they have the last file. Return the number of rows."""
    deadline = time.monotonic() + SETTLE_SECONDS
    for steady in tables:
        while True:
            mirrored = open_mirrored(target, steady.table.name)
            if mirrored is not None and mirrored_rows(mirrored) == steady.rows:
                break
            if time.monotonic() > deadline:
                raise SoakFailed(f"{steady.table.name}: the Delta table differs from the source")
            threading.Event().wait(0.5)
    return sum(len(steady.rows) for steady in tables)


def _up_process() -> int:
    """Return the process id of `mirrorgate up`, the only child of this process."""
    (up,) = children(os.getpid())
    return up


@contextmanager
def _engine(place: Path) -> Iterator[sa.Engine]:
    url = running_url(place)
    assert url is not None
    engine = open_engine(url, application="soak")
    try:
        yield engine
    finally:
        engine.dispose()


if __name__ == "__main__":
    sys.exit(main())
