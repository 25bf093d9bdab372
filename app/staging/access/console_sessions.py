"""Sessions of the console in Postgres, found by the hash of their token. All times are those of the database.

A session that has expired, or has not been used for long, is as good as deleted: no statement returns it, and
retention purges it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from app.domain.access.rights import Grant, Right
from app.domain.access.sign_in import MAX_IDLE_SECONDS, MAX_SESSION_SECONDS, MAX_SESSIONS_OF_SUBJECT

_IS_LIVE = """expires_at > clock_timestamp() AND last_used_at BETWEEN clock_timestamp() - make_interval(secs => :idle)
    AND clock_timestamp() + make_interval(secs => :idle)"""  # a later use was before the clock was set back

INSERT_SESSION = sa.text("""
    INSERT INTO mirrorgate.console_sessions (session_hash, subject, proof, grants, expires_at)
    VALUES (:session_hash, :subject, :proof, CAST(:grants AS jsonb),
        clock_timestamp() + make_interval(secs => :seconds))""")
"""Store a new session."""

DELETE_OLDEST = sa.text("""
    DELETE FROM mirrorgate.console_sessions WHERE session_hash IN (
        SELECT session_hash FROM mirrorgate.console_sessions WHERE subject = :subject
        ORDER BY created_at <= clock_timestamp() DESC, created_at DESC OFFSET :kept)""")
"""End the oldest sessions of a subject that has too many; first those from before the clock was set back."""

SELECT_SESSION = sa.text(f"""
    SELECT subject, proof, grants, last_used_at < clock_timestamp() - interval '1 minute' AS is_stale
    FROM mirrorgate.console_sessions WHERE session_hash = :session_hash AND {_IS_LIVE}""")  # noqa: S608  # constant text
"""Find a session that has not ended."""

NOTE_USE = sa.text("""
    UPDATE mirrorgate.console_sessions SET last_used_at = clock_timestamp() WHERE session_hash = :session_hash""")
"""Record that a session was used now."""

DELETE_SESSION = sa.text("DELETE FROM mirrorgate.console_sessions WHERE session_hash = :session_hash RETURNING subject")
"""End a session."""

PURGE_SESSIONS = sa.text(f"DELETE FROM mirrorgate.console_sessions WHERE NOT ({_IS_LIVE})")  # noqa: S608  # constant text
"""Delete the sessions that have ended."""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session that has not ended: of a key, with its proof, or of a token's holder, with grants."""

    subject: str
    proof: bytes | None
    grants: tuple[Grant, ...]


def start_session(
    connection: sa.Connection,
    session_hash: bytes,
    subject: str,
    *,
    proof: bytes | None = None,
    grants: Sequence[Grant] | None = None,
    seconds: float | None = None,
) -> None:
    """Store a session of a key (with its proof) or of a token's holder, which ends after at most `seconds`."""
    lasts = min(MAX_SESSION_SECONDS if seconds is None else seconds, MAX_SESSION_SECONDS)
    written = None if grants is None else [[sorted(grant.rights), list(grant.table_patterns)] for grant in grants]
    keys = {"session_hash": session_hash, "subject": subject, "proof": proof, "seconds": lasts}
    connection.execute(INSERT_SESSION, {**keys, "grants": None if written is None else json.dumps(written)})
    connection.execute(DELETE_OLDEST, {"subject": subject, "kept": MAX_SESSIONS_OF_SUBJECT})


def find_session(connection: sa.Connection, session_hash: bytes) -> StoredSession | None:
    """Return the session of this token, None if there is none or it has ended. Records its use once a minute."""
    keys = {"session_hash": session_hash, "idle": MAX_IDLE_SECONDS}
    row = connection.execute(SELECT_SESSION, keys).one_or_none()
    if row is None:
        return None
    if row.is_stale:
        connection.execute(NOTE_USE, {"session_hash": session_hash})
    grants = tuple(Grant(frozenset(map(Right, rights)), tuple(patterns)) for rights, patterns in row.grants or ())
    return StoredSession(row.subject, None if row.proof is None else bytes(row.proof), grants)


def end_session(connection: sa.Connection, session_hash: bytes) -> str | None:
    """Delete a session and return its subject, None if there is no such session."""
    subject: str | None = connection.execute(DELETE_SESSION, {"session_hash": session_hash}).scalar_one_or_none()
    return subject
