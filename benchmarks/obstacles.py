"""What stands in the way of goals, by profiles of the reference machine, and what a next step would gain."""

from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.figure import Figure

OBSTACLES: Final[Mapping[str, str]] = {
    "bulk": (
        "Of a change the API takes 2 µs of the interpreter's lock to find its images and compare the rest of it, "
        "2.5 µs in Arrow's reader beside it, 2 to 3 µs to receive its bytes and 2 to 3 µs to compress and stage "
        "its row. Reading of the image before an update only its keys would spare a third of an update; a parser "
        "that writes columns straight from the body, a quarter of the whole."
    ),
    "bulk-two-processes": (
        "One process takes 1.2 cores, Postgres 0.15: two processes have 1.6 times that at the most on two cores, "
        "and share one table's lock. With a core more for Postgres and the load generator they reach it."
    ),
    "small": (
        "Of the 0.9 ms a request the empty endpoint's 0.4 ms are HTTP, log and metrics; the body, the key and the "
        "typing take 0.15, the thread that stages 0.15, contention of the two threads the rest. Keeping the typed "
        "rows of a group whole would give 2 to 3 %, the transaction's id from the statement that stages 1 %. More "
        "than that takes a process for each of the two threads."
    ),
    "drain": (
        "Of a build 55 % is the encoding of Parquet, 20 % reading payloads, 15 % decompressing them; besides 40 ms "
        "for each job. Reading the next block while the present one is encoded would hide most of the reading "
        "where a core is free, a fifth."
    ),
    "end-to-end": (
        "Everything together takes about 20 µs of processor time for a change, three quarters of them the API's, "
        "so two cores give 100,000 a second at the most; three times the best peer, which reads files and keeps "
        "nothing, is more than two cores parse of JSON with that gateway. On machines with more cores the parts "
        "grow apart: see the sizing."
    ),
    "freshness": (
        "A change waits for the rest of the cycle that was on when it came, half of one in the middle, then for its own: "
        "claim and plan, a Spark job, the file made durable, nominated, renamed and recorded. The job, which the limit "
        "measures, takes a third of what it did before decision 0018; the transactions and the writing of the file around "
        "it take as long as ever. Claim and plan in one transaction, nomination and record with fewer statements, would "
        "spare a fifth of a cycle; one small file built in the driver, the job."
    ),
    "tables": (
        "For each table the driver makes four transactions, each with its commit on disk: claim and plan, "
        "nominate, record, and the end of the claim. Recording several tables in one transaction would save about "
        "2 ms a table."
    ),
    "partial-updates": (
        "Of a change 35 % is reading both of its images in full, 20 % merging and encoding the row image, 20 % "
        "Postgres reading and writing it under the table's lock. Reading only the keys of the image before, and "
        "merging by column where no key stands twice, would give 10 to 15 %."
    ),
    "memory": (
        "What is not bodies is the process itself, 150 MB of it modules, and the columns of the bodies that are read."
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
