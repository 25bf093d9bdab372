"""What the probes say: whether an API process can accept changes, and how the whole gateway is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

OK: Final = "ok"

FAILURE_COUNTS_SECONDS: Final = 30.0
"""A failed transaction makes a process unready for so long at most: without requests nothing else would end it."""

CLOCKS_APART: Final = 5.0
"""Seconds; decisions are made by the database's clock alone, so a smaller difference means nothing."""


@dataclass(frozen=True, slots=True)
class GatewayFacts:
    """What the database says of the whole gateway."""

    drains: int
    waiting_drains: int
    """Drains that something keeps from publishing anything."""
    waits_for: str | None
    """The error code of what one of them waits for."""
    tables: Mapping[str, int]
    """By state, of tables that are not dropped."""
    mirror_errors: int
    """Tables that Fabric reports an error for."""
    future_batches: int
    """Unpublished blocks that the database's clock says are still to be staged."""
    clock_behind_seconds: float
    """How far this process's clock is behind that of the database."""
    drain_clock_behind_seconds: float
    """The same of the drain whose clock is furthest away."""


def judge_writer(
    *, failure: str | None, failed_seconds: float | None, oldest_seconds: float | None, limit_seconds: float
) -> str:
    """`ok`, or why changes are not being staged."""
    if failure is not None and failed_seconds is not None and failed_seconds < FAILURE_COUNTS_SECONDS:
        return f"the last transaction failed {failed_seconds:.0f} s ago: {failure}"
    if oldest_seconds is not None and oldest_seconds > limit_seconds:
        return f"the oldest request has waited for {oldest_seconds:.0f} s"
    return OK


def judge_gateway(facts: GatewayFacts) -> dict[str, str]:
    """Each part of the gateway beside the API process that is asked: `ok`, or what is wrong with it."""
    return {
        "drain": _drain(facts),
        "tables": _tables(facts.tables),
        "mirror": OK if not facts.mirror_errors else f"Fabric reports an error for {facts.mirror_errors} tables",
        "clock": _clock(facts),
    }


def judge_backlog(ratio: float) -> str:
    """`ratio`: the fullest backlog as a share of its limit."""
    return OK if ratio < 1 else "a backlog is full: its changes are rejected with 429 `backlog_full`"


def _drain(facts: GatewayFacts) -> str:
    if not facts.drains:
        return "no drain has a running lease; start one with `mirrorgate drain`"
    if facts.waiting_drains:
        return f"{facts.waiting_drains} of {facts.drains} drains publish nothing: {facts.waits_for}"
    return OK


def _tables(tables: Mapping[str, int]) -> str:
    stopped = {state: tables.get(state, 0) for state in ("quarantined", "failing")}
    wrong = [f"{number} {state}" for state, number in stopped.items() if number]
    return OK if not wrong else f"of {sum(tables.values())} tables, {' and '.join(wrong)}"


def _clock(facts: GatewayFacts) -> str:
    wrong = []
    clocks = {"this process": facts.clock_behind_seconds, "a drain": facts.drain_clock_behind_seconds}
    for whose, behind in clocks.items():
        if abs(behind) > CLOCKS_APART:
            side = "behind" if behind > 0 else "ahead of"
            wrong.append(f"the clock of {whose} is {abs(behind):.0f} s {side} that of Postgres")
    if facts.future_batches:
        wrong.append("batches are from the future: the clock of Postgres was set back")
    return "; ".join(wrong) or OK
