"""The page of a soak run: what ran, how long, and each measure early and late."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

from benchmarks.machine.description import Machine, Versions
from tests.soak.growth import Growth


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a soak run did and found."""

    seconds: float
    changes: int
    rows: int
    """Rows that landed, and that the counters agree on."""
    rejected: int
    mirrored: int
    """Rows in the Delta tables at the end, each equal to the source's."""
    chain_blocks: int
    chain_bytes: int
    growth: Sequence[Growth]


def page(outcome: Outcome, machine: Machine, versions: Versions, date: str) -> str:
    """Return the page as Markdown."""
    hours = outcome.seconds / 3_600
    lines = [
        "# Soak run",
        "",
        f"`make soak HOURS={hours:.3g}` ran `mirrorgate up --mirror` under a steady load on {date}: "
        f"{outcome.changes:,} changes of four tables of constant size, in Arcion and Replicate format, with partial "
        f"updates. {outcome.rows:,} rows landed, as every counter says; {outcome.rejected:,} wrong requests were "
        f"rejected; at the end the {outcome.mirrored:,} rows of the Delta tables equaled those of the source.",
        "",
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB, load before {machine.load_before}; "
        f"{machine.system}; commit {versions.commit}, Python {versions.python}, Postgres {versions.postgres}. "
        "Retention was a quarter of an hour, and landing files were taken away as Fabric does.",
        "",
        "*early* is the median of the second quarter of the run, *late* that of the last. Memory is anonymous memory. "
        "A measure is flat if it grew by less than a tenth and a small amount for its unit, threads if they grew by at "
        "most 12.",
        "",
        "Logs grow with each request until `up` rotates them ([one-machine.md](../operate/one-machine.md)). "
        "The metadata chain is "
        f"kept always and left out of the database's size: its {outcome.chain_blocks:,} blocks, one for each published "
        f"file and schema, took {outcome.chain_bytes / 1e6:,.1f} MB, "
        f"{outcome.chain_bytes // outcome.chain_blocks:,} bytes each.",
        "",
        "| measure | early | late | peak | flat |",
        "|---|---|---|---|---|",
        *(_row(growth) for growth in outcome.growth),
    ]
    return "\n".join(line if line.startswith("|") else fill(line, 120) for line in lines) + "\n"


def _row(growth: Growth) -> str:
    values = " | ".join(f"{value:,.1f}" for value in (growth.early, growth.late, growth.peak))
    return f"| {growth.name} | {values} | {'yes' if growth.is_flat else '**no**'} |"
