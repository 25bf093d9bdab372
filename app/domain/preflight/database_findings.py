"""Judges Postgres: what it needs for an acknowledged change to be safe, and what follows if it is not so."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from app.domain.preflight.finding import Finding, Outcome, judged

OLDEST_VERSION: Final = 150_000
_DURABLE: Final = frozenset({"on", "local", "remote_write", "remote_apply"})
_CLOCKS_APART: Final = 5.0


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """What a connection of the gateway reports about its server."""

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
        remedy="Set MIRRORGATE_MASK_SECRET to the same value for all API processes, and start them again.",
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
        remedy="Set synchronous_standby_names and synchronous_commit = on, and promote only a synchronous standby; or "
        "know what to do after a failover that lost transactions (docs/backup.md).",
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
        good="the server is a primary that takes writes",
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
        remedy="Connect past a pooler in transaction mode, or set it to session mode.",
    )
    other = {name: asked for name, (asked, holds) in facts.session_settings.items() if holds != asked}
    wrong = ", ".join(f"{name} is {facts.session_settings[name][1]}, not {asked}" for name, asked in other.items())
    yield judged(
        "postgres_session_settings",
        Outcome.WARNING,
        good="connections have the settings that they ask for",
        bad=f"{wrong}: locks of a stalled process may be held for long.{pooler}" if other else None,
        remedy="Let the pooler pass startup options on, or set these for the role: ALTER ROLE … SET ….",
    )


def _steps(facts: DatabaseFacts) -> Finding:
    return judged(
        "postgres_clock_steps",
        Outcome.WARNING,
        good="no unpublished batch is from the future",
        bad=f"{facts.future_batches} unpublished blocks of batches are from the future: the server's clock was set back"
        if facts.future_batches
        else None,
        remedy="Nothing has to be done: they are published at once. Let the server's clock be slewed, not stepped.",
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
