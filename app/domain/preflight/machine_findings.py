"""Judges machines: free space, memory and descriptors, and what executors must have in common with the driver."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.preflight.database_findings import judge_clock
from app.domain.preflight.finding import Finding, Outcome, judged

MIN_FREE_BYTES: Final = 2**30
"""Bytes below which a disk is nearly full: a few landing files, or a few minutes of a busy stream."""

_PROCESS_MEMORY: Final = 256 * 2**20
_MEMORY_OF_A_BYTE: Final = 10
"""Bytes of memory per byte of a body while it is decoded and typed, at most, for bodies of tools (docs/limits.md)."""

_MAX_OPEN_SHARE: Final = 0.85
_MIN_DESCRIPTORS: Final = 1_024
_MORE_DESCRIPTORS: Final = "Raise the limit of open files (`ulimit -n`, LimitNOFILE) to 65536 or more."

_MUST_AGREE: Final = frozenset({"mirrorgate", "pyarrow", "python"})
"""Packages that decide what a landing file contains."""


@dataclass(frozen=True, slots=True)
class ExecutorFacts:
    """What one Spark task reports about where it ran."""

    host: str
    versions: Mapping[str, str]
    clock_behind_seconds: float
    database: str | None
    """None if it reached Postgres, else the reason."""


def judge_space(check: str, location: str, free_bytes: int, *, min_free: int = MIN_FREE_BYTES) -> Finding:
    """Judge whether there is room to write."""
    free = f"{bytes_text(free_bytes)} are free in {location}"
    return judged(
        check,
        Outcome.WARNING,
        good=free,
        bad=free if free_bytes < min_free else None,
        remedy="Make room before the disk is full.",
    )


def bytes_text(count: int) -> str:
    """Format an amount of memory or disk for people: `14 MiB`, `12.5 GiB`."""
    return f"{count // 2**20:,} MiB" if count < 10 * 2**30 else f"{count / 2**30:,.1f} GiB"


def judge_descriptors(opened: int, limit: int) -> Finding:
    """Judge whether this process can open more files and accept more connections now."""
    used = f"{opened} of {limit} file descriptors are open"
    trouble = f"{used}; new connections are reset when none is left" if opened >= _MAX_OPEN_SHARE * limit else None
    return judged("descriptors", Outcome.WARNING, good=used, bad=trouble, remedy=_MORE_DESCRIPTORS)


def judge_descriptor_limit(limit: int) -> Finding:
    """Judge whether the limit of open files is enough for a busy gateway."""
    allowed = f"this process may open {limit} files"
    trouble = f"{allowed} only" if limit < _MIN_DESCRIPTORS else None
    return judged("descriptor_limit", Outcome.WARNING, good=allowed, bad=trouble, remedy=_MORE_DESCRIPTORS)


def judge_memory(limit: int | None, bodies: int, largest_body: int) -> Finding:
    """Judge whether an API process has the memory that its settings can need; unsafe if one body would end it."""
    needed, least = _PROCESS_MEMORY + _MEMORY_OF_A_BYTE * bodies, _PROCESS_MEMORY + 2 * largest_body
    remedy = (
        "Give the process more memory (`ulimit -v`, the container's limit), or lower MIRRORGATE_MAX_BYTES_IN_MEMORY "
        "and MIRRORGATE_MAX_BODY_BYTES."
    )
    if limit is None or limit >= needed:
        return Finding("memory", Outcome.OK, "an API process may use the memory that its settings may need")
    detail = (
        f"an API process may use {bytes_text(limit)} of memory; with these settings it may need {bytes_text(needed)}"
    )
    return Finding("memory", Outcome.UNSAFE if limit < least else Outcome.WARNING, detail, remedy)


def judge_versions(versions: Mapping[str, str]) -> Finding:
    """Report the installed packages."""
    return Finding("packages", Outcome.OK, ", ".join(f"{name} {version}" for name, version in versions.items()))


def judge_variables(sentences: Sequence[str]) -> list[Finding]:
    """Return a warning for each sentence about an unknown or renamed variable."""
    remedy = "Correct the name or remove the variable; docs/settings.md lists the settings."
    found = [Finding("environment", Outcome.WARNING, sentence, remedy) for sentence in sentences]
    return found or [Finding("environment", Outcome.OK, "every MIRRORGATE_* variable is a setting")]


def judge_executors(driver: Mapping[str, str], executors: Sequence[ExecutorFacts]) -> list[Finding]:
    """Judge whether the executors have the driver's packages, reach Postgres, and agree on the time."""
    return [*_packages(driver, executors), *_databases(executors), *_clocks(executors)]


def _packages(driver: Mapping[str, str], executors: Sequence[ExecutorFacts]) -> Iterator[Finding]:
    differing = {
        (name, executor.versions.get(name), executor.host)
        for executor in executors
        for name in driver
        if executor.versions.get(name) != driver[name]
    }
    for name, version, host in sorted(differing, key=str):
        has = f"{name} {version}" if version else f"no {name}"
        yield Finding(
            "executor_packages",
            Outcome.UNSAFE if name in _MUST_AGREE else Outcome.WARNING,
            f"executor {host} has {has}, the driver {name} {driver[name]}",
            "Install the same versions everywhere.",
        )
    if not differing:
        hosts = ", ".join(sorted({executor.host for executor in executors}))
        yield Finding("executor_packages", Outcome.OK, f"the executors ({hosts}) have the driver's packages")


def _databases(executors: Sequence[ExecutorFacts]) -> Iterator[Finding]:
    failed = sorted({f"executor {executor.host}: {executor.database}" for executor in executors if executor.database})
    yield judged(
        "executor_database",
        Outcome.UNSAFE,
        good="the executors reach Postgres",
        bad="; ".join(failed) or None,
        remedy="Set MIRRORGATE_DATABASE_URL to an address that every machine of the cluster reaches.",
    )


def _clocks(executors: Sequence[ExecutorFacts]) -> Iterator[Finding]:
    worst = max(executors, key=lambda executor: abs(executor.clock_behind_seconds))
    yield judge_clock("executor_clock", worst.clock_behind_seconds, f"that of executor {worst.host}")
