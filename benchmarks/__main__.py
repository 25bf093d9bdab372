"""`make bench`: how fast changes become durable and are published, beside what merely decoding the same bytes costs.

Figures are medians over the runs; the limit is measured in the same run, on the same bytes, by one thread.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import httpx
import msgspec
from rich.console import Console
from rich.table import Table as Grid

from app.client import GatewayClient
from demo.gateway import admin_key, running_gateway

COLUMNS: Final = 16
console = Console(highlight=False)


def messages(first: int, count: int) -> bytes:
    """Arcion inserts of 16 columns, about 1.4 kB each."""
    names = [f"column_{number:02d}" for number in range(COLUMNS)]
    nothing, exists = dict.fromkeys(names, "null"), dict.fromkeys(names, "1")
    body = [
        {
            "tableName": {
                "namespace": {"catalog": "bench", "schema": "default_schema", "hash": 1},
                "name": "t",
                "hash": 2,
            },
            "opType": "I",
            "cursor": '{"extractorId":0,"timestamp":1657516903000,"log":"log-bin.000010","position":7461,"v":2}',
            "before": nothing,
            "after": {name: str(key) if number < 8 else f"text of row {key}" for number, name in enumerate(names)},
            "exists": exists,
            "operationcount": '{"insertCount":30,"updateCount":0,"deleteCount":0,"replaceCount":0}',
        }
        for key in range(first, first + count)
    ]
    return msgspec.json.encode(body)


def register(client: GatewayClient) -> None:
    columns = [
        {"name": f"column_{number:02d}", "type": "int64" if number < 8 else "string"} for number in range(COLUMNS)
    ]
    client.put("/v1/tables/bench.t", {"key_columns": ["column_00"], "columns": columns})


def rate(call: Callable[[], int]) -> float:
    """Units per second of one call that says how many units it did."""
    started = time.perf_counter()
    return call() / (time.perf_counter() - started)


def decode_all(bodies: list[bytes], per_request: int) -> int:
    for body in bodies:
        msgspec.json.decode(body)
    return len(bodies) * per_request


def post_all(url: str, key: str, bodies: list[bytes], per_request: int, connections: int) -> int:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def post(share: list[bytes]) -> None:
        with httpx.Client(base_url=url, headers=headers, timeout=60) as http:
            for body in share:
                http.post("/v1/changes/arcion", content=body).raise_for_status()

    with ThreadPoolExecutor(connections) as threads:
        list(threads.map(post, [bodies[number::connections] for number in range(connections)]))
    return len(bodies) * per_request


def published_rows(client: GatewayClient) -> int:
    return int(client.get("/v1/tables/bench.t")["published"]["rows"])


def wait_published(client: GatewayClient, rows: int) -> int:
    before = published_rows(client)
    while (now := published_rows(client)) < rows:
        time.sleep(0.02)
    return now - before


def measure(url: str, key: str, changes: int, per_request: int, connections: int, runs: int) -> list[str]:
    """One line of the table: durable changes/s, their spread, the limit of decoding alone, and the ratio."""
    bodies = [messages(first, per_request) for first in range(0, changes, per_request)]
    post_all(url, key, bodies[: len(bodies) // 10 or 1], per_request, connections)
    done = [rate(lambda: post_all(url, key, bodies, per_request, connections)) for _ in range(runs)]
    limit = statistics.median(rate(lambda: decode_all(bodies, per_request)) for _ in range(runs))
    middle = statistics.median(done)
    return [f"{middle:,.0f}", f"{min(done):,.0f} to {max(done):,.0f}", f"{limit:,.0f}", f"{middle / limit:.2f}"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--changes", type=int, default=100_000, help="changes per run")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    grid = Grid(title="changes per second (median; lowest to highest)")
    for title in ("workload", "durable", "spread", "decode only, 1 thread", "ratio"):
        grid.add_column(title, justify="left" if title == "workload" else "right")
    with tempfile.TemporaryDirectory() as folder, running_gateway(Path(folder)) as url:
        key = admin_key(Path(folder))
        with GatewayClient(url, key) as client:
            register(client)
            for title, per_request, changes, connections in (
                ("bulk: 1,000 changes per request, 4 connections", 1_000, arguments.changes, 4),
                ("small: 1 change per request, 32 connections", 1, arguments.changes // 20, 32),
            ):
                grid.add_row(title, *measure(url, key, changes, per_request, connections, arguments.runs))
            started = time.perf_counter()
            wait_published(client, int(client.get("/v1/tables/bench.t")["accepted"]["rows"]))
            caught_up = time.perf_counter() - started
    console.print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    console.print(grid)
    console.print(f"The drain had caught up {caught_up:.1f} s after the last request.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
