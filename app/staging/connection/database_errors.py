"""Translation of Postgres errors into ours, by SQLSTATE.

A temporary condition becomes TemporarilyUnavailable (503; the client retries). Data that Postgres cannot store becomes
RejectedInput (422; the same request would always fail). Every other error is a bug of ours and stays as it is (500).
The states are listed in "Appendix A. PostgreSQL Error Codes" of the Postgres documentation.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
import sqlalchemy as sa

from app.errors import Code, MirrorgateError, RejectedInput, TemporarilyUnavailable

_BUSY: Final = frozenset({"55P03", "40P01", "40001"})
"""Lock timeout, deadlock, and serialization failure."""

_READ_ONLY: Final = frozenset({"25006"})
"""The server is a standby or read-only, for example after a failover that the connection survived."""

_TEMPORARY: Final = {
    "08": "Postgres does not answer",
    "53": "Postgres has no disk space, memory or connections left",
    "57": "Postgres is stopping, starting or has canceled the statement",
    "58": "Postgres cannot read or write its files",
    "25P03": "Postgres has ended a transaction that was idle for too long (idle_in_transaction_session_timeout)",
    "25P04": "Postgres has ended a transaction that took too long (transaction_timeout)",
}
"""Texts for the caller, by state or by the state's class (its first two characters)."""

_LOST_SESSIONS: Final = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"})
"""States after which the server has ended the session."""

_BAD_DATA: Final = frozenset({"22", "54"})
"""Classes "data exception" and "program limit exceeded"; an index row, for example, fits a third of a page at most."""

BOUNDED: Final = "_is_bounded"
"""Suffix of the CHECK constraints that bound a text of a request; the other constraints guard our own invariants."""


def translated_error(error: sa.exc.DBAPIError) -> MirrorgateError | None:
    """Return the error for the caller; None if the cause is neither a temporary condition nor the request."""
    state = _state(error)
    if state in _BUSY:
        return TemporarilyUnavailable(Code.TABLE_BUSY, "the table is locked by another transaction")
    if state in _READ_ONLY:
        return TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "Postgres takes no writes: it is read-only")
    never_sent = not state and isinstance(error, sa.exc.DataError)  # psycopg itself rejects U+0000
    if never_sent or state[:2] in _BAD_DATA or (state == "23514" and _constraint(error).endswith(BOUNDED)):
        return RejectedInput(Code.UNSTORABLE, "Postgres cannot store a text of this request")
    temporary = _TEMPORARY.get(state) or _TEMPORARY.get(state[:2])
    if temporary is not None:
        return TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, temporary)
    never_answered = not state and isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)
    if never_answered or error.connection_invalidated:
        return TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "Postgres does not answer")
    return None


def ends_session(error: BaseException | None) -> bool:
    """Return true if the connection must be replaced after this error, although it may still be open.

    A connection to a server that has become read-only stays with that server; only a new one finds the new primary.
    """
    return isinstance(error, psycopg.Error) and (error.sqlstate or "") in _READ_ONLY | _LOST_SESSIONS


@contextmanager
def translated_errors() -> Iterator[None]:
    """Translate database errors of the block with `error_for_caller`, keeping the cause."""
    try:
        yield
    except (sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
        raise error_for_caller(error) from error


def error_for_caller(error: Exception) -> Exception:
    """Return what a database error means for the caller; any other error is returned as it is."""
    if isinstance(error, sa.exc.DBAPIError):
        return translated_error(error) or error
    if isinstance(error, sa.exc.TimeoutError):
        return TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "no free database connection")
    return error


def _state(error: sa.exc.DBAPIError) -> str:
    return (error.orig.sqlstate or "") if isinstance(error.orig, psycopg.Error) else ""


def _constraint(error: sa.exc.DBAPIError) -> str:
    return (error.orig.diag.constraint_name or "") if isinstance(error.orig, psycopg.Error) else ""
