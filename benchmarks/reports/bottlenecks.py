"""The bottlenecks of figures that miss their goal, by profiles of the reference machine, and what would remove them."""

from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.reports.figure import Figure

BOTTLENECKS: Final[Mapping[str, str]] = {
    "bulk": (
        "In a profile the API spends, per change, 1.5 µs on finding its parts, 2.7 µs on comparing them, cutting its "
        "image into columns and proving that nothing is hidden, 2 to 3 µs on receiving its bytes, 1.5 µs on typing, "
        "compressing and staging its row. A parser that writes columns directly from the body would save an estimated "
        "3 µs."
    ),
    "bulk-two-processes": (
        "One process keeps 1.2 cores busy and Postgres 0.15, so two cores have room for at most 1.5 times that. Both "
        "processes stage into one table, one after the other. One more core for Postgres and the load generator would "
        "raise the rate."
    ),
    "small": (
        "Reading and staging share one interpreter lock. In a profile the reading thread takes three quarters of a "
        "cycle, two thirds of that in the server itself. Staging a group of 32 takes 5 ms, 2 of them waiting for "
        "Postgres. Begin, lock and checks in one statement would save an estimated 2 to 3 %. More needs a second "
        "process."
    ),
    "drain": (
        "In a profile, 55 % of a build is encoding Parquet, 20 % reading payloads, 15 % decompressing them; each job "
        "adds 40 ms. The 40 ms matter for backlogs of less than a million rows per round. Reading a block while the "
        "previous one is encoded would hide most of the reading if a core is free."
    ),
    "end-to-end": (
        "Both cores are busy: the API takes 63 % of their time, Spark's Python workers 14, Postgres 11, the drain and "
        "its JVM 6, the load generator 3. A change takes 18 to 23 µs, 11 to 14 of them in the API, where reading it "
        "takes 4.2 if the other core is idle. Spark's own reader, once warm, parses on both cores and does nothing "
        "else. Three times its rate leaves 13 µs for receiving, typing, staging, building and publishing together. A "
        "parser that writes columns directly from the body would save an estimated 3 µs, and building without a second "
        "pass over staged rows another 2."
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
    "partial-updates": (
        "In a profile the API spends 24 µs per change: 11 on reading its two images in full, 6 on merging and encoding "
        "the row image, 3 on typing, 3 on fetching and writing the image. Postgres adds 15. Reading only the keys of "
        "the before image, and merging by column where no key is repeated, would save an estimated 5."
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
