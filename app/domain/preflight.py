"""Judgements of what checks and probes found about Postgres, machines and landing zones: facts in, findings out.

`app.checks` collects the facts, and `mirrorgate doctor` shows the findings with their remedies. An unsafe one prevents
a start: an acknowledged change would not be safe there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mirrorgate.errors.codes import Code
from mirrorgate.errors.site import with_addresses


class Outcome(StrEnum):
    """The outcome of a check. *Unsafe*: rows could be lost, repeated or mixed up, or a receipt could be undone."""

    OK = "ok"
    WARNING = "warning"
    UNSAFE = "unsafe"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; `check` is a stable name, the remedy says what an operator can do."""

    check: str
    outcome: Outcome
    detail: str
    remedy: str | None = None


def unsafe_among(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with which the gateway must not run."""
    return [finding for finding in findings if finding.outcome is Outcome.UNSAFE]


def judged(check: str, outcome: Outcome, *, good: str, bad: str | None, remedy: str) -> Finding:
    """Return an OK finding with the string `good`, or one with `outcome` and `remedy` if there is a string `bad`."""
    return Finding(check, Outcome.OK, good) if bad is None else Finding(check, outcome, bad, remedy)


OLDEST_VERSION: Final = 150_000
_DURABLE: Final = frozenset({"on", "local", "remote_write", "remote_apply"})
_CLOCKS_APART: Final = 5.0


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """A connection's facts about its server."""

    version: int
    version_text: str
    fsync: str
    full_page_writes: str
    synchronous_commit: str
    in_recovery: bool
    read_only: str
    session_settings: dict[str, tuple[str, str]]
    """By setting that connections request: the requested and the effective value."""
    heard_itself: bool
    """True if a notification arrived on another connection."""
    through_pooler: bool
    """True if the server process is not the one that the connection was opened with."""
    revision: str | None
    wanted_revision: str
    revision_fits: bool
    """True also for a newer revision that serves this program."""
    clock_behind_seconds: float
    """Seconds that this machine's clock is behind the server's; negative if it is ahead."""
    future_batches: int = 0
    """Unpublished batches whose staging time is in the future by the server's clock."""
    standbys: int = 0
    """Connections that replicate this server: standbys, and base backups while they run."""
    synchronous_standby_names: str = ""
    """The setting of that name; empty: COMMIT waits for no standby."""


def judge_database(facts: DatabaseFacts) -> list[Finding]:
    """Return the findings about the server in a fixed order."""
    return [
        *judge_durability(facts.fsync, facts.full_page_writes, facts.synchronous_commit),
        _standbys(facts),
        _version(facts),
        _writable(facts),
        *_connections(facts),
        _revision(facts),
        _steps(facts),
    ]


def judge_clock(check: str, behind_seconds: float, other: str) -> Finding:
    """Judge whether two clocks agree closely enough. Decisions use the database's clock only."""
    apart = abs(behind_seconds)
    far = f"this machine's clock is {apart:.1f} s {'behind' if behind_seconds > 0 else 'ahead of'} {other}"
    return judged(
        check,
        Outcome.WARNING,
        good=f"this machine's clock agrees with {other} within {_CLOCKS_APART:.0f} s",
        bad=far if apart > _CLOCKS_APART else None,
        remedy="Synchronize the clocks: times in logs and the life of tokens depend on them, publication does not.",
    )


def judge_masks(trouble: str | None) -> Finding:
    """Judge the secret of hashed columns: what is wrong with it."""
    return judged(
        "mask_secret",
        Outcome.WARNING,
        good="no table is hashed under another MIRRORGATE_MASK_SECRET than that of this process, if it is set",
        bad=trouble,
        remedy="Set MIRRORGATE_MASK_SECRET to the same value for all API processes, and restart them.",
    )


def judge_durability(fsync: str, full_page_writes: str, commit: str) -> Iterator[Finding]:
    """Judge whether a crash of its machine loses what Postgres has acknowledged; `commit` is `synchronous_commit`."""
    lost = "a crash of its machine can lose or damage what was acknowledged"
    for name, value in (("fsync", fsync), ("full_page_writes", full_page_writes)):
        yield judged(
            f"postgres_{name}",
            Outcome.UNSAFE,
            good=f"{name} is on",
            bad=None if value == "on" else f"{name} is {value}: {lost}",
            remedy=f"Set {name} = on in postgresql.conf and restart Postgres.",
        )
    yield judged(
        "postgres_synchronous_commit",
        Outcome.UNSAFE,
        good=f"synchronous_commit is {commit}",
        bad=None if commit in _DURABLE else f"synchronous_commit is {commit}: {lost}",
        remedy="Set synchronous_commit = on for the server, the database and the role that Mirrorgate connects as.",
    )


def _standbys(facts: DatabaseFacts) -> Finding:
    count = "1 standby replicates" if facts.standbys == 1 else f"{facts.standbys} standbys replicate"
    waits = bool(facts.synchronous_standby_names) and facts.synchronous_commit != "local"
    why = "synchronous_commit is local" if facts.synchronous_standby_names else "synchronous_standby_names is empty"
    lost = f"{count} this server and COMMIT waits for none ({why}): a failover loses what it acknowledged last"
    return judged(
        "postgres_standbys",
        Outcome.WARNING,
        good=f"COMMIT waits for standbys ({facts.synchronous_standby_names})" if waits else "no standby is connected",
        bad=lost if facts.standbys and not waits else None,
        remedy=with_addresses(
            "Set synchronous_standby_names and synchronous_commit = on, and promote only a synchronous standby; or "
            "prepare for a failover that loses transactions (docs/operate/backup.md)."
        ),
    )


def _version(facts: DatabaseFacts) -> Finding:
    old = facts.version < OLDEST_VERSION
    return judged(
        "postgres_version",
        Outcome.UNSAFE,
        good=f"Postgres {facts.version_text}",
        bad=f"Postgres {facts.version_text} is older than {OLDEST_VERSION // 10_000}" if old else None,
        remedy=f"Use Postgres {OLDEST_VERSION // 10_000} or newer.",
    )


def _writable(facts: DatabaseFacts) -> Finding:
    bad = "the server is a standby" if facts.in_recovery else None
    if bad is None and facts.read_only == "on":
        bad = "transactions are read-only"
    return judged(
        "postgres_primary",
        Outcome.UNSAFE,
        good="the server is a primary that accepts writes",
        bad=bad,
        remedy="Connect to the primary, for example with target_session_attrs=read-write in MIRRORGATE_DATABASE_URL.",
    )


def _connections(facts: DatabaseFacts) -> Iterator[Finding]:
    pooler = " A pooler is in between." if facts.through_pooler else ""
    yield judged(
        "postgres_listen",
        Outcome.WARNING,
        good="a notification arrives on another connection",
        bad=None
        if facts.heard_itself
        else f"LISTEN and NOTIFY do not work: the drain finds work by polling alone.{pooler}",
        remedy="Connect to Postgres directly, or set the pooler to session mode.",
    )
    other = {name: asked for name, (asked, holds) in facts.session_settings.items() if holds != asked}
    wrong = ", ".join(f"{name} is {facts.session_settings[name][1]}, not {asked}" for name, asked in other.items())
    yield judged(
        "postgres_session_settings",
        Outcome.WARNING,
        good="connections have the settings that they ask for",
        bad=f"{wrong}: locks of a stalled process may be held for long.{pooler}" if other else None,
        remedy="Let the pooler forward startup options, or set these for the role: ALTER ROLE … SET ….",
    )


def _steps(facts: DatabaseFacts) -> Finding:
    return judged(
        "postgres_clock_steps",
        Outcome.WARNING,
        good="no unpublished batch is from the future",
        bad=f"{facts.future_batches} unpublished blocks of batches are from the future: the server's clock was set back"
        if facts.future_batches
        else None,
        remedy="No action is needed: they are published immediately. Slew the server's clock; do not step it.",
    )


def _revision(facts: DatabaseFacts) -> Finding:
    found, wanted = facts.revision, facts.wanted_revision
    return judged(
        "postgres_revision",
        Outcome.UNSAFE,
        good=f"the schema has revision {found}",
        bad=None if facts.revision_fits else f"the schema has revision {found}, this program needs {wanted}",
        remedy="Run `mirrorgate migrate` with the newest program; it is safe to repeat.",
    )


MIN_FREE_BYTES: Final = 2**30
"""Bytes below which a disk is nearly full: a few landing files, or a few minutes of a busy stream."""

_PROCESS_MEMORY: Final = 256 * 2**20
_MEMORY_OF_A_BYTE: Final = 10
"""Bytes of memory per byte of a body while it is decoded and typed, at most, for bodies of tools
(docs/reference/limits.md)."""

_MAX_OPEN_SHARE: Final = 0.85
_MIN_DESCRIPTORS: Final = 1_024
_MORE_DESCRIPTORS: Final = "Raise the limit of open files (`ulimit -n`, LimitNOFILE) to 65536 or more."

_MUST_AGREE: Final = frozenset({"mirrorgate", "pyarrow", "python"})
"""Packages that decide what a landing file contains."""


@dataclass(frozen=True, slots=True)
class ExecutorFacts:
    """One Spark task's report about its machine."""

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
        remedy="Free space before the disk is full.",
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
    remedy = with_addresses("Correct the name or remove the variable; docs/reference/settings.md lists the settings.")
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


class ZoneCheck(StrEnum):
    """One check of a landing zone."""

    WRITE = "zone_write"
    LIST = "zone_list_after_write"
    RENAME = "zone_rename_keeps_existing"
    REVOCATION = "zone_revocation"
    FOLDER_RENAME = "zone_folder_rename"
    RECURSIVE_DELETE = "zone_recursive_delete"
    RENAME_CONDITION = "zone_rename_condition"
    SOURCE_ETAG = "zone_source_etag"
    CONDITIONAL_DELETE = "zone_conditional_delete"
    CLEAN_UP = "zone_clean_up"
    EXECUTOR_WRITES = "zone_executor_writes"
    OWNER = "zone_owner"
    KNOWN = "zone_known"


@dataclass(frozen=True, slots=True)
class Seen:
    """The outcome of one try: success, or the failure."""

    check: ZoneCheck
    instead: str | None = None


@dataclass(frozen=True, slots=True)
class _Rule:
    outcome: Outcome
    good: str
    remedy: str


_OTHER_STORE: Final = "Use a store that does: a local or POSIX-compliant folder, ADLS Gen2 or OneLake."

_RULES: Final = {
    ZoneCheck.WRITE: _Rule(
        Outcome.UNSAFE,
        "a written file reads back unchanged",
        "Check the address, the credential, its right to write, and free space.",
    ),
    ZoneCheck.LIST: _Rule(
        Outcome.WARNING,
        "a listing shows what was written before it",
        "No action is needed: decisions are made path by path; only take-overs are slower.",
    ),
    ZoneCheck.RENAME: _Rule(Outcome.UNSAFE, "a rename does not replace an existing file", _OTHER_STORE),
    ZoneCheck.REVOCATION: _Rule(
        Outcome.UNSAFE,
        "nothing can be created below a folder that became a file",
        _OTHER_STORE,
    ),
    ZoneCheck.FOLDER_RENAME: _Rule(
        Outcome.WARNING,
        "a folder is renamed in one step",
        "No action is needed: table folders are filled file by file, and one that a crash leaves half filled is "
        "quarantined.",
    ),
    ZoneCheck.RECURSIVE_DELETE: _Rule(
        Outcome.UNSAFE,
        "a folder is deleted with its contents",
        "Give the credential the right to delete; without it no table can be dropped or taken over.",
    ),
    ZoneCheck.RENAME_CONDITION: _Rule(
        Outcome.WARNING,
        "the service itself rejects a rename onto an existing file",
        "Let nothing else write into the landing zone: the drain checks the new name before each rename, which "
        "protects because one worker owns a table.",
    ),
    ZoneCheck.SOURCE_ETAG: _Rule(
        Outcome.UNSAFE, "a rename whose source has changed is rejected", "Use a service that obeys conditions on ETags."
    ),
    ZoneCheck.CONDITIONAL_DELETE: _Rule(
        Outcome.UNSAFE,
        "a delete of a changed file is rejected",
        "Use a service that obeys conditions on ETags.",
    ),
    ZoneCheck.CLEAN_UP: _Rule(
        Outcome.WARNING, "the check left nothing behind", "Delete the folders `_scratchPad/probe-*`."
    ),
    ZoneCheck.EXECUTOR_WRITES: _Rule(
        Outcome.UNSAFE,
        "what each executor wrote is seen by the driver",
        "Let driver and executors reach the same landing zone under the same address.",
    ),
    ZoneCheck.OWNER: _Rule(Outcome.UNSAFE, "no other gateway has the landing zone", Code.LANDING_ZONE_TAKEN.remedy),
    ZoneCheck.KNOWN: _Rule(
        Outcome.UNSAFE,
        "it is the landing zone that the database publishes into",
        Code.LANDING_ZONE_CHANGED.remedy,
    ),
}


def judge_zone(seen: Iterable[Seen]) -> list[Finding]:
    """Return the results of checks as findings, in the same order."""
    return [judge_seen(one) for one in seen]


def judge_seen(seen: Seen) -> Finding:
    """Return the result of one check as a finding."""
    rule = _RULES[seen.check]
    return judged(seen.check, rule.outcome, good=rule.good, bad=seen.instead, remedy=rule.remedy)
