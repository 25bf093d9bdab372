"""Judges for the probes whether an API process can accept changes, and how the whole gateway is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from app.domain.fabric.trouble import FabricFacts, fabric_trouble
from app.errors.codes import Code

OK: Final = "ok"

FAILURE_COUNTS_SECONDS: Final = 30.0
"""A failed transaction makes a process unready for at most this long: without requests, nothing else ends it."""

CLOCKS_APART: Final = 5.0
"""Seconds. Decisions use the database's clock only, so a smaller difference does not matter."""


@dataclass(frozen=True, slots=True)
class GatewayFacts:
    """What Postgres reports about the whole gateway."""

    drains: int
    waiting_drains: int
    """Drains that cannot publish anything."""
    waits_for: str | None
    """The error code of the reason, of one of them."""
    tables: Mapping[str, int]
    """Numbers of tables by state, without dropped ones."""
    fabric: FabricFacts | None
    """What Fabric's API says; None where no drain asks it."""
    fabric_tables: int
    """Tables that Fabric has given up, or for which it reports an error."""
    stopped_mirrors: int
    """Tables whose next landing file a running Delta mirror cannot apply."""
    future_batches: int
    """Unpublished blocks whose staging time is in the future by the database's clock."""
    clock_behind_seconds: float
    """Seconds that this process's clock is behind the database's."""
    drain_clock_behind_seconds: float
    """The same of the drain whose clock is furthest away."""


def is_ready(parts: Mapping[str, str], was_ready: bool) -> bool:
    """Return true if an API process can accept changes.

    Another mask secret keeps a process from its first traffic, so that a wrong rollout ends. It takes no process out of
    traffic: tables without hashed columns are served, and all processes may lack the secret of one table.
    """
    return all(state == OK or (part == "masks" and was_ready) for part, state in parts.items())


def judge_writer(
    *, failure: str | None, failed_seconds: float | None, oldest_seconds: float | None, limit_seconds: float
) -> str:
    """Return `ok`, or why changes are not being staged."""
    if failure is not None and failed_seconds is not None and failed_seconds < FAILURE_COUNTS_SECONDS:
        return f"the last transaction failed {failed_seconds:.0f} s ago: {failure}"
    if oldest_seconds is not None and oldest_seconds > limit_seconds:
        return f"the oldest request has waited for {oldest_seconds:.0f} s"
    return OK


def judge_gateway(facts: GatewayFacts) -> dict[str, str]:
    """Return, for each part of the gateway beside this API process, `ok` or what is wrong."""
    return {
        "drain": _drain(facts),
        "tables": _tables(facts.tables),
        "fabric": _fabric(facts),
        "mirror": _mirror(facts),
        "clock": _clock(facts),
    }


def judge_backlog(ratio: float) -> str:
    """Judge the fullest backlog, given as a share of its limit."""
    return OK if ratio < 1 else "a backlog is full: its changes are rejected with 429 `backlog_full`"


def _drain(facts: GatewayFacts) -> str:
    if not facts.drains:
        return "no drain has a running lease. `mirrorgate up` starts its own again; else run `mirrorgate drain`"
    if facts.waiting_drains:
        remedy = Code(facts.waits_for).remedy if facts.waits_for in list(Code) else ""
        return f"{facts.waiting_drains} of {facts.drains} drains publish nothing: {facts.waits_for}. {remedy}".strip()
    return OK


def _tables(tables: Mapping[str, int]) -> str:
    stopped = {state: tables.get(state, 0) for state in ("quarantined", "failing")}
    wrong = [f"{number} {state}" for state, number in stopped.items() if number]
    return OK if not wrong else f"of {sum(tables.values())} tables, {' and '.join(wrong)}"


def _fabric(facts: GatewayFacts) -> str:
    """Return what is wrong, each with its remedy. Both faults can stop mirroring without any other sign."""
    trouble = fabric_trouble(facts.fabric)
    wrong = [f"{trouble.summary}. {trouble.remedy}"] if trouble is not None else []
    if facts.fabric_tables:
        tables = "1 table" if facts.fabric_tables == 1 else f"{facts.fabric_tables} tables"
        wrong.append(f"Fabric reports an error for {tables}. `mirrorgate status` names them with remedies.")
    return " ".join(wrong) or OK


def _mirror(facts: GatewayFacts) -> str:
    if facts.stopped_mirrors:
        return f"the Delta mirror cannot continue {facts.stopped_mirrors} tables"
    return OK


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
