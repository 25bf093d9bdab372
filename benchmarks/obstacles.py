"""What stands in the way of goals, by profiles of the reference machine, and what a next step would gain."""

from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.figure import Figure

OBSTACLES: Final[Mapping[str, str]] = {
    "bulk": (
        "Profiled, of a change the API takes 1.5 µs to find its parts, 2.7 µs to compare them, cut its image into "
        "columns and see that nothing is hidden, 2 to 3 µs to receive its bytes, and 1.5 µs to type, compress and "
        "stage its row. A parser that writes columns straight from the body would spare 3, an estimate."
    ),
    "bulk-two-processes": (
        "One process keeps 1.2 cores busy and Postgres 0.15, so two cores have room for 1.5 times that at the "
        "most; both stage into one table, one after the other. A core more for Postgres and the load generator "
        "would lift it."
    ),
    "small": (
        "Reading and staging take turns under one interpreter's lock. Profiled, three quarters of a cycle are the "
        "reading thread's, two thirds of those the server's own, which the empty endpoint has too; staging a group of "
        "32 takes 5 ms, 2 of them waiting for Postgres. Begin, lock and gates as one statement would give 2 to 3 %: an "
        "estimate. More needs a second process."
    ),
    "drain": (
        "Profiled, 55 % of a build is encoding Parquet, 20 % reading payloads, 15 % decompressing them, and each "
        "job takes 40 ms besides. Backlogs of less than a million rows a round feel the 40 ms. Reading a block "
        "while the one before is encoded would hide most of the reading where a core is free."
    ),
    "end-to-end": (
        "Both cores are busy: of their time the API takes 63 %, Spark's Python workers 14, Postgres 11, the drain and "
        "its JVM 6, the load generator 3. A change takes 18 to 23 µs of it, 11 to 14 in the API, where reading it "
        "takes 4.2 if the other core is idle. Spark's own reader, once warm, parses on both cores and does nothing "
        "else: three times its rate leaves 13 µs for receiving, typing, staging, building and publishing together. A "
        "parser that writes columns straight from the body would spare 3, and building without a second pass over "
        "what is staged another 2, both estimates."
    ),
    "freshness": (
        "A change waits for the rest of the cycle that was on when it came, then for its own: plan, the file built "
        "and made durable, nominated, renamed and recorded, each step behind its commit. The API and Postgres "
        "share the two cores with it."
    ),
    "tables": (
        "A file of one row takes its task 8 ms: its payload read, 4 ms to write Parquet of 16 columns, two flushes "
        "to disk, and its footer read back. Planning, nominating and recording it take the driver 4 ms of processor "
        "time, under one interpreter's lock; a second drain process would take half of the tables."
    ),
    "partial-updates": (
        "Profiled, of 24 µs that the API takes for a change 11 are reading its two images in full, 6 merging and "
        "encoding the row image, 3 typing, 3 fetching and writing the image; Postgres takes 15 beside. Reading "
        "only the keys of the image before, and merging by column where no key stands twice, would spare about 5: "
        "an estimate."
    ),
    "memory": (
        "Profiled, the process itself takes 150 MB, most of it modules; bodies in memory 32 MiB; a body that is "
        "read 30 MB in columns, or 65 to 75 MB as Python objects where it has to go the long way."
    ),
}
"""By the name of a figure with a goal."""


def obstacle_lines(figures: Sequence[Figure]) -> list[str]:
    """A list in Markdown, of the figures that miss their goal."""
    return [
        f"- {figure.title}: {OBSTACLES[figure.name]}"
        for figure in figures
        if figure.reached is False and figure.name in OBSTACLES
    ]
