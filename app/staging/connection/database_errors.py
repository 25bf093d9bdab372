"""What each error of Postgres means for the caller: one closed classification, by SQLSTATE.

A condition that passes is TemporarilyUnavailable (503, tried again). Data that Postgres cannot store is the request's
own fault (422): the same request would fail for ever. Everything else is our fault and stays what it is (500).
The list of states: "Appendix A. PostgreSQL Error Codes" of the Postgres documentation.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
import sqlalchemy as sa

from app.errors import Code, MirrorgateError, RejectedInput, TemporarilyUnavailable

_BUSY: Final = frozenset({"55P03", "40P01", "40001"})
"""A lock was not granted in time, or two transactions were in each other's way."""

_READ_ONLY: Final = frozenset({"25006"})
"""The server is a standby, or was made read-only: as after a failover that the connection outlived."""

_PASSING: Final = {
    "08": "Postgres does not answer",
    "53": "Postgres has no disk space, memory or connections left",
    "57": "Postgres is stopping, starting or has canceled the statement",
    "58": "Postgres cannot read or write its files",
    "25P03": "Postgres has ended a transaction that was idle for too long",
}
_LOST_SESSIONS: Final = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03"})

_BAD_DATA: Final = frozenset({"22", "54"})
"""A data exception, and a program limit exceeded: an index row, for example, has at most a third of a page."""

BOUNDED: Final = "_is_bounded"
"""How names of CHECK constraints end that bound a text of a request. The other constraints hold our own invariants."""


def meaning_of(error: sa.exc.DBAPIError) -> MirrorgateError | None:
    """What to tell the caller; None for an error that is neither a passing condition nor the request's fault."""
    state = _state(error)
    if state in _BUSY:
        return TemporarilyUnavailable(Code.TABLE_BUSY, "the table is locked by another transaction")
    if state in _READ_ONLY:
        return TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "Postgres takes no writes: it is read-only")
    never_sent = not state and isinstance(error, sa.exc.DataError)  # U+0000, which the driver itself rejects
    if never_sent or state[:2] in _BAD_DATA or (state == "23514" and _constraint(error).endswith(BOUNDED)):
        return RejectedInput(Code.UNSTORABLE, "Postgres cannot store a text of this request")
    passing = _PASSING.get(state) or _PASSING.get(state[:2])
    if passing is not None:
        return TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, passing)
    never_answered = not state and isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)
    if never_answered or error.connection_invalidated:
        return TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "Postgres does not answer")
    return None


def ends_session(error: BaseException | None) -> bool:
    """Whether the connection that met this error must be replaced, although it may still be open.

    A connection to a server that has become read-only stays with it: only a new one finds the new primary.
    """
    return isinstance(error, psycopg.Error) and (error.sqlstate or "") in _READ_ONLY | _LOST_SESSIONS


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise what an error of the database means for the caller; the cause is kept."""
    try:
        yield
    except (sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
        raise for_caller(error) from error


def for_caller(error: Exception) -> Exception:
    """What an error of the database means for the caller, any other error as it is."""
    if isinstance(error, sa.exc.DBAPIError):
        return meaning_of(error) or error
    if isinstance(error, sa.exc.TimeoutError):
        return TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "no free database connection")
    return error


def _state(error: sa.exc.DBAPIError) -> str:
    return (error.orig.sqlstate or "") if isinstance(error.orig, psycopg.Error) else ""


def _constraint(error: sa.exc.DBAPIError) -> str:
    return (error.orig.diag.constraint_name or "") if isinstance(error.orig, psycopg.Error) else ""
