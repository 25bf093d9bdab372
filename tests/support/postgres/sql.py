"""Transactions of tests: call functions of the gateway, read rows, and create states that the program does not."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def call(
    engine: sa.Engine,
    function: Callable[Concatenate[sa.Connection, Parameters], Result],
    *arguments: Parameters.args,
    **others: Parameters.kwargs,
) -> Result:
    """Call a function with a connection in a new transaction, and return its result."""
    with engine.begin() as connection:
        return function(connection, *arguments, **others)


def run(engine: sa.Engine, statement: str, **parameters: Any) -> None:
    """Execute one statement in a new transaction."""
    with engine.begin() as connection:
        connection.execute(sa.text(statement), parameters)


def attempt(engine: sa.Engine, statement: str, **parameters: Any) -> None:
    """Execute one statement and take it back."""
    with engine.connect() as connection, connection.begin() as transaction:
        connection.execute(sa.text(statement), parameters)
        transaction.rollback()


def end_sessions(engine: sa.Engine, application: str = "%") -> int:
    """End the sessions that others have in the database, all or those of an application; return how many."""
    statement = """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
          AND application_name LIKE :application"""
    return int(value(engine, statement, application=application))


def value(engine: sa.Engine, statement: str, **parameters: Any) -> Any:
    """Return the only value that a query finds."""
    with engine.begin() as connection:
        return connection.execute(sa.text(statement), parameters).scalar_one()


def rows(engine: sa.Engine, statement: str, **parameters: Any) -> list[tuple[Any, ...]]:
    with engine.begin() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement), parameters)]


@contextmanager
def locked(engine: sa.Engine, statement: str, **parameters: Any) -> Iterator[None]:
    """Another transaction holds the locks of `statement` while the block runs."""
    with engine.connect() as connection, connection.begin():
        connection.execute(sa.text(statement), parameters)
        yield


@contextmanager
def read_only(engine: sa.Engine) -> Iterator[None]:
    """Whoever connects to the database of `engine` during the block can only read."""
    name = f'ALTER DATABASE "{engine.url.database}"'
    run(engine, f"{name} SET default_transaction_read_only = on")
    try:
        yield
    finally:
        run(engine, f"SET TRANSACTION READ WRITE; {name} RESET default_transaction_read_only")


def lock_waits(engine: sa.Engine) -> int:
    """Return how many sessions of this database wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return int(value(engine, query))


@contextmanager
def counted(engine: sa.Engine, beginning: str) -> Iterator[list[str]]:
    """Collect the statements that the engine sends during the block and that begin so, ignoring blanks."""
    seen: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.strip().startswith(beginning):
            seen.append(statement)

    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)
