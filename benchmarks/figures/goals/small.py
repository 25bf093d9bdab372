"""Small requests: one change each over 32 connections, compared with a bare FastAPI endpoint."""

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from benchmarks.bench import Bench
from benchmarks.loads.driver import Load, ceiling_details, limit_server, load_details, load_on
from benchmarks.loads.workloads import find_workload
from benchmarks.reports.figure import Figure, Goal, Measured, readable

CONNECTIONS: Final = 32


def measure(bench: Bench) -> list[Figure]:
    """Send the same requests in turn to an API process, a bare FastAPI endpoint and a raw ASGI application.

    Each server is one process with the same settings of uvicorn. The two limits read the body and answer 202.
    """
    workload = find_workload("small-1")
    durable, fastapi, asgi, empty = [], [], [], []
    with bench.gateway() as gateway:
        api = gateway.start_api()
        api.prepare(workload)
        with (
            load_on(api.url, gateway.key, workload.name, CONNECTIONS) as load,
            _limit("bare_fastapi", workload.name) as to_fastapi,
            _limit("raw_asgi", workload.name) as to_asgi,
        ):
            bench.show_status("small, warming up")
            load.send(bench.seconds / 2)
            for limit in (to_fastapi, to_asgi):
                limit.send(bench.seconds / 4)
            for _ in bench.each_run("small"):
                sent = load.send(bench.seconds)
                durable.append(sent.requests / sent.seconds)
                fastapi.append(_rate(to_fastapi, bench.seconds))
                asgi.append(_rate(to_asgi, bench.seconds / 2))
                nothing = load.send_empty(bench.seconds / 4)
                empty.append(nothing.requests / nothing.seconds)
    others = {"a raw ASGI application": asgi, "the same server's empty endpoint": empty}
    return [
        Figure(
            "small",
            f"Small: durable requests of one change, {CONNECTIONS} connections",
            "requests/s",
            Measured.of(durable),
            Measured.of(fastapi),
            "a bare FastAPI endpoint that reads the same bodies and answers 202",
            Goal(0.8, at_least=True),
            load_details(sent)
            | {name: f"{readable(statistics.median(rates))} requests/s" for name, rates in others.items()}
            | ceiling_details(workload.name, CONNECTIONS, bench.seconds / 4),
        )
    ]


@contextmanager
def _limit(module: str, workload: str) -> Iterator[Load]:
    with limit_server(module) as url, load_on(url, "none", workload, CONNECTIONS) as load:
        yield load


def _rate(load: Load, seconds: float) -> float:
    sent = load.send(seconds)
    return sent.requests / sent.seconds
