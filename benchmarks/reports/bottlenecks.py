"""The bottlenecks of figures that miss their goal, by profiles of the reference machine, and what would remove them."""

from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.reports.figure import Figure

BOTTLENECKS: Final[Mapping[str, str]] = {
    "bulk": (
        "In a profile a change takes the reader thread 5.3 µs, the event loop 1.4, the staging thread 1.1 and "
        "Postgres 0.9. The threads share one interpreter lock, so the rate is that of their sum. A decoder that works "
        "outside the lock would save an estimated 3 µs."
    ),
    "bulk-two-processes": (
        "One process keeps 1.2 cores busy and Postgres 0.15, so two cores have room for at most 1.5 times that. Both "
        "processes stage into one table, one after the other. One more core for Postgres and the load generator would "
        "raise the rate."
    ),
    "small": (
        "In a profile a request takes the event loop 100 µs and the staging thread, which also reads it, 60; a "
        "transaction takes the staging thread 1.2 ms more, which all 32 requests share. Both hold one interpreter "
        "lock, and Postgres takes 23 µs beside them. Sending the answer takes 20 µs, and nothing else takes more than "
        "10. An ASGI application that only reads the body takes 24 µs. More needs a second process."
    ),
    "drain": (
        "In a profile, 55 % of a build is encoding Parquet, 20 % reading payloads, 15 % decompressing them; each job "
        "adds 40 ms. The 40 ms matter for backlogs of less than a million rows per round. Reading a block while the "
        "previous one is encoded would hide most of the reading if a core is free."
    ),
    "end-to-end": (
        "Both cores are busy: the API takes two thirds of their time. A change takes about 12 µs, 8 of them in the "
        "API. Spark's own reader, once warm, parses on both cores and does nothing else. A decoder that works outside "
        "the interpreter lock would save an estimated 3 µs."
    ),
    "freshness": (
        "A change waits for the rest of the current drain cycle and then for its own: the file is planned, built, "
        "synced, registered, renamed and recorded, and each step waits for its commit. The API and Postgres share the "
        "two cores with it."
    ),
    "tables": (
        "A file of one row takes its task 8 ms: read the payload, 4 ms to write Parquet of 16 columns, two syncs to "
        "disk, and read the footer back. Planning, registering and recording it takes the driver 4 ms of processor "
        "time, under one interpreter lock. A second drain process would take half of the tables."
    ),
    "replicate": (
        "In a profile a change takes the reader thread 4.0 µs, the event loop 0.9, the staging thread 0.9. Decoding "
        "the messages with their images, and writing them again to prove that nothing was dropped, is 1.4 of them. A "
        "decoder that rejects duplicate keys would save a part of that."
    ),
    "debezium": (
        "In a profile an event of 4.9 kB takes the reader thread 10.2 µs, the event loop 4.4, the staging thread 1.6. "
        "Receiving the schema that is repeated in each event is most of the event loop's time, and comparing it 1.4 of "
        "the reader's. A connector that leaves the schemas out saves both."
    ),
    "small-10": (
        "In a profile a request takes the event loop 125 µs and the staging thread 170. Half of that is per request "
        "and not per change: threads that wait for one interpreter lock, and system calls. More needs a second process."
    ),
    "partial-updates": (
        "In a profile a change takes the reader thread 8.7 µs, the staging thread 9.1, which waits for Postgres to "
        "read and write its row image (7.5). Reading the images of the next group meanwhile would hide an estimated "
        "2 µs."
    ),
    "memory": (
        "In a profile the process itself takes 150 MB, most of it modules; bodies in memory take 32 MiB; a body being "
        "read takes 30 MB in columns, or 65 to 75 MB as Python objects on the exact path."
    ),
}
"""Text by the name of a figure with a goal."""


def bottleneck_lines(figures: Sequence[Figure]) -> list[str]:
    """Return a Markdown list of the figures that miss their goal."""
    return [
        f"- {figure.title}: {BOTTLENECKS[figure.name]}"
        for figure in figures
        if figure.reached is False and figure.name in BOTTLENECKS
    ]
