"""Statements that every group of requests executes, given to the driver as they are.

What SQLAlchemy adds to one execution takes longer than the driver and Postgres take for it. The connection and its
transaction stay SQLAlchemy's, and so do the errors.
"""

from collections.abc import Iterable, Mapping
from typing import Any, LiteralString

import psycopg
import sqlalchemy as sa

from app.staging.connection.database_errors import ends_session


def driver_rows(
    connection: sa.Connection, statement: LiteralString, parameters: Mapping[str, object]
) -> list[tuple[Any, ...]]:
    """The rows that a statement with the driver's placeholders gives, in a transaction that the caller has begun.

    Raises sa.exc.DBAPIError.
    """
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    try:
        return driver.execute(statement, parameters).fetchall()
    except psycopg.Error as error:
        lost = driver.closed or ends_session(error)
        if lost:
            connection.invalidate(error)
        raise sa.exc.DBAPIError.instance(
            statement,
            None,
            error,
            psycopg.Error,
            hide_parameters=True,
            connection_invalidated=lost,
            dialect=connection.dialect,
        ) from error


def int_array_literal(values: Iterable[int]) -> str:
    """An array of numbers as Postgres writes one, which takes the driver a fraction of what a list does."""
    return "{" + ",".join(map(str, values)) + "}"
