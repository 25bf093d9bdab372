"""What Fabric's API last said about the mirrored database, and the turns in which drains ask it.

The report is for operators only: publication never depends on it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from app.domain.fabric.states import DatabaseStatus
from app.domain.fabric.tables import stored_text
from app.domain.fabric.trouble import FabricFacts
from app.domain.publication.failure import Failure

_MAX_WAIT_SECONDS: Final = 3_600.0
"""The longest pause that Fabric can ask for; a clock that was set back cannot make it longer."""

CLAIM_POLL = sa.text("""
    INSERT INTO mirrorgate.fabric_database AS f (next_poll_at)
    VALUES (clock_timestamp() + make_interval(secs => :seconds))
    ON CONFLICT (only_row) DO UPDATE SET next_poll_at = excluded.next_poll_at
    WHERE f.next_poll_at <= clock_timestamp()
       OR f.next_poll_at > clock_timestamp() + make_interval(secs => :max_wait + :seconds)
    RETURNING next_poll_at""")
"""Claim the next question, if one is due."""

STORE_ANSWER = sa.text("""
    UPDATE mirrorgate.fabric_database f SET
        state = :state, state_since = CASE WHEN f.state = :state THEN f.state_since ELSE clock_timestamp() END,
        error = :error, whose = :whose, answered_at = clock_timestamp(),
        tables_at = CASE WHEN :has_tables THEN clock_timestamp() ELSE f.tables_at END,
        problem_code = NULL, problem_detail = NULL, problem_remedy = NULL
    FROM (SELECT state FROM mirrorgate.fabric_database FOR UPDATE) before
    RETURNING before.state""")
"""Store an answer, and return the state before it."""

STORE_PROBLEM = sa.text("""
    UPDATE mirrorgate.fabric_database f SET
        problem_code = :code, problem_detail = :detail, problem_remedy = :remedy,
        next_poll_at = greatest(f.next_poll_at, clock_timestamp() + make_interval(secs => :wait))
    FROM (SELECT problem_code FROM mirrorgate.fabric_database FOR UPDATE) before
    RETURNING before.problem_code""")
"""Store why a question failed, and return the code of the one before it."""

FORGET = sa.text("""
    WITH forgotten AS (DELETE FROM mirrorgate.fabric_database RETURNING only_row)
    DELETE FROM mirrorgate.mirror_states WHERE EXISTS (SELECT FROM forgotten)""")
"""Forget the database and, if there was one, its tables."""

FORGET_TABLES = sa.text("DELETE FROM mirrorgate.mirror_states")
"""Forget the tables, also those that the monitoring file listed."""

SELECT_DATABASE = sa.text("""
    SELECT state, error, whose, state_since, answered_at, problem_code, problem_detail, problem_remedy,
        extract(epoch FROM clock_timestamp() - coalesce(answered_at, watched_since))::float8 AS answer_seconds
    FROM mirrorgate.fabric_database""")
"""Read the last answer, and why the question after it failed."""


@dataclass(frozen=True, slots=True)
class FabricDatabase:
    """The mirrored database as Fabric's API last reported it, in Fabric's own words."""

    facts: FabricFacts
    whose: str | None
    state_since: datetime | None
    answered_at: datetime | None


def claim_poll(connection: sa.Connection, seconds: float) -> bool:
    """Return whether the caller asks Fabric now; no drain asks for the next `seconds`.

    A process that dies after this has skipped one question.
    """
    return connection.execute(CLAIM_POLL, {"seconds": seconds, "max_wait": _MAX_WAIT_SECONDS}).first() is not None


def store_answer(connection: sa.Connection, status: DatabaseStatus, *, has_tables: bool) -> str | None:
    """Store the state of the database; return the state before, None without one.

    `has_tables`: the status of the tables is stored in the same transaction. A process that dies before the commit
    leaves the former status, whose age shows.
    """
    stored = {
        "state": stored_text(status.raw) or "",
        "error": stored_text(str(status.error)) if status.error else None,
        "whose": status.error.whose if status.error else None,
        "has_tables": has_tables,
    }
    before: str | None = connection.execute(STORE_ANSWER, stored).scalar_one_or_none()
    return before


def store_problem(connection: sa.Connection, failure: Failure, wait_seconds: float) -> str | None:
    """Store why Fabric did not answer, and that drains wait so long; return the code of the problem before."""
    stored = {
        "code": failure.code,
        "detail": stored_text(failure.detail) or "",
        "remedy": failure.remedy,
        "wait": min(wait_seconds, _MAX_WAIT_SECONDS),
    }
    before: str | None = connection.execute(STORE_PROBLEM, stored).scalar_one_or_none()
    return before


def forget_database(connection: sa.Connection) -> None:
    """Forget what Fabric's API said of the database and its tables, because no drain is told to ask it any more.

    Without an answer of the API, the tables keep what the zone's monitoring file says of them.
    """
    connection.execute(FORGET)


def forget_former_zone(connection: sa.Connection) -> None:
    """Forget what Fabric said of the database and the tables, because another one reads the new landing zone.

    A process that dies before the commit leaves it, together with the former zone.
    """
    connection.execute(FORGET)
    connection.execute(FORGET_TABLES)


def fabric_database(connection: sa.Connection) -> FabricDatabase | None:
    """Return what Fabric last said about the database, None where no drain asks."""
    row = connection.execute(SELECT_DATABASE).one_or_none()
    if row is None:
        return None
    facts = FabricFacts(
        state=row.state,
        error=row.error,
        answer_seconds=row.answer_seconds,
        problem_code=row.problem_code,
        problem_detail=row.problem_detail,
        problem_remedy=row.problem_remedy,
    )
    return FabricDatabase(facts, row.whose, row.state_since, row.answered_at)


def fabric_facts(connection: sa.Connection) -> FabricFacts | None:
    """Return what is judged of the database, None where no drain asks."""
    found = fabric_database(connection)
    return None if found is None else found.facts
