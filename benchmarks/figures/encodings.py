"""Replicate in Avro, and enforced source order: durable changes per second, compared with JSON and with arrival."""

from typing import Final

from benchmarks.bench import Bench
from benchmarks.loads.paired import Side, measure_in_turn
from benchmarks.reports.figure import Figure

CONNECTIONS: Final = 8
IN_ORDER: Final = 4
"""Connections that keep the order of each table: fewer than the tables of `log-enforce`."""


def measure(bench: Bench) -> list[Figure]:
    """Send the same changes both ways, in turn, to one API process."""
    with bench.gateway() as gateway:
        api = gateway.start_api()
        avro, json = Side("replicate-avro", CONNECTIONS), Side("replicate", CONNECTIONS)
        encoded = measure_in_turn(bench, gateway, api, "Replicate in Avro", avro, json)
        enforced, arrival = Side("log-enforce", IN_ORDER), Side("log-arrival", IN_ORDER)
        ordered = measure_in_turn(bench, gateway, api, "enforced source order", enforced, arrival)
    return [
        encoded.figure("replicate-avro", "Replicate's messages in Avro, 1,000 a request", "the same rows as JSON", 0.5),
        ordered.figure(
            "source-order",
            "`source_order=enforce` for Arcion's log positions, 1,000 changes a request",
            "the same changes with `source_order=arrival`",
            0.9,
        ),
    ]
