"""Rate of a load session beside that of an initial load, `python -m benchmarks.load_sessions`.

The same Arrow streams are posted to tables that keep row images: as an initial load, in a full load session of an empty
table, and in another one of the same rows, which replaces each row. Figures are medians over runs that alternate.
"""

import argparse
import io
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.gateway import clear_settings, running_gateway
from mirrorgate.http import GatewayClient

COLUMNS: Final = 16
NAMES: Final = [f"column_{number:02d}" for number in range(COLUMNS)]
INITIAL: Final = "initial load"
SESSION: Final = "load session"
AGAIN: Final = "the same load again"
ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
console = Console(highlight=False)


def streams(rows: int, per_request: int) -> list[bytes]:
    """Return the rows, 8 numbers and 8 short texts each, as Arrow streams of this many rows."""
    made = []
    for first in range(0, rows, per_request):
        keys = range(first, first + per_request)
        texts = [f"text of row {key}" for key in keys]
        table = pa.table({name: pa.array(keys if at < 8 else texts) for at, name in enumerate(NAMES)})
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        made.append(sink.getvalue())
    return made


def registered(client: GatewayClient) -> str:
    """Register a table that keeps row images, and return its name."""
    name = f"bench.t{uuid4().hex}"
    columns = [
        {"name": column, "type": "int64" if at < 8 else "string", "nullable": at > 0} for at, column in enumerate(NAMES)
    ]
    options = {"row_images": "on", "initial_load": "without_marker"}
    client.put(f"/v1/tables/{name}", {"columns": columns, "key_columns": NAMES[:1], "options": options})
    return name


@dataclass
class Loading:
    """One kind of load of the rows into one table, and the seconds that its requests took."""

    client: GatewayClient
    table: str
    load: str | None = None
    seconds: float = 0.0

    def begin(self) -> None:
        """Begin a full load session."""
        self._timed(self._begin)

    def post(self, body: bytes) -> None:
        """Post one stream."""
        headers = {} if self.load is None else {"Mirrorgate-Load": self.load}
        post = partial(self.client.post_changes, "arrow", table=self.table, content_type=ARROW_STREAM, headers=headers)
        self._timed(partial(post, body))

    def complete(self) -> None:
        """Complete the load session."""
        self._timed(self._complete)

    def _begin(self) -> None:
        self.load = self.client.post(f"/v1/tables/{self.table}/loads", {"mode": "full"})["load"]

    def _complete(self) -> None:
        path, state = f"/v1/tables/{self.table}/loads/{self.load}/complete", ""
        while state != "completed":
            state = self.client.post(path, None)["state"]

    def _timed(self, act: Callable[[], object]) -> None:
        started = time.perf_counter()
        act()
        self.seconds += time.perf_counter() - started


def measure(client: GatewayClient, bodies: Sequence[bytes], rows: int, runs: int) -> dict[str, list[float]]:
    """Return the rates of each kind of load, in rows per second; the requests of all kinds alternate."""
    rates: dict[str, list[float]] = {INITIAL: [], SESSION: [], AGAIN: []}
    known = registered(client)
    before = Loading(client, known)
    for body in bodies:
        before.post(body)
    for _ in range(runs):
        initial, session = Loading(client, registered(client)), Loading(client, registered(client))
        again = Loading(client, known)
        session.begin()
        again.begin()
        for body in bodies:
            for one in (initial, session, again):
                one.post(body)
        session.complete()
        again.complete()
        for title, one in ((INITIAL, initial), (SESSION, session), (AGAIN, again)):
            rates[title].append(rows / one.seconds)
    return rates


def main() -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load_sessions", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of a load (default: 200,000)")
    parser.add_argument("--per-request", type=int, default=10_000, help="rows of a request (default: 10,000)")
    parser.add_argument("--runs", type=int, default=3, help="runs (default: 3)")
    arguments = parser.parse_args()
    clear_settings()
    bodies = streams(arguments.rows, arguments.per_request)
    grid = Grid(title="rows per second (median; lowest to highest)")
    for title in ("load", "rate", "spread", "load ÷ initial load"):
        grid.add_column(title, justify="left" if title == "load" else "right")
    with tempfile.TemporaryDirectory() as folder, running_gateway(Path(folder) / "gateway") as gateway:
        rates = measure(gateway.start_api().client, bodies, arguments.rows, arguments.runs)
    for title, found in rates.items():
        ratio = statistics.median(one / initial for one, initial in zip(found, rates[INITIAL], strict=True))
        spread = f"{min(found):,.0f} to {max(found):,.0f}"
        grid.add_row(title, f"{statistics.median(found):,.0f}", spread, f"{ratio:.2f}")
    console.print(grid)
    return 0


if __name__ == "__main__":
    sys.exit(main())
