"""Repeats an attempt whose tables changed between typing and staging.

Typing needs no lock, so a table can change its schema, options or generation before the sequence lock is taken. The
lock notices that (`TableMoved`) and nothing is staged; the next attempt sees the table as it is then.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeVar

from app.domain.access.rights import Principal
from app.domain.model.table import Table
from app.ingest.table_cache import TableCache
from app.staging.batches.batch import TableMoved
from app.staging.connection.database import translated_errors
from app.staging.tables.registration import evolve_table, record_registration
from mirrorgate.errors import Code, TemporarilyUnavailable

Result = TypeVar("Result")

MAX_ATTEMPTS: Final = 5
"""Attempts of one request; then its caller has to send it again."""


async def retry_moved(attempt: Callable[[], Awaitable[Result]]) -> Result:
    """Return the result of the first attempt that does not raise TableMoved.

    Raises TemporarilyUnavailable `table_busy` after the last attempt, and whatever else an attempt raises.
    """
    for _ in range(MAX_ATTEMPTS):
        try:
            return await attempt()
        except TableMoved:
            continue
    raise TemporarilyUnavailable(Code.TABLE_BUSY, "the tables of this request keep changing")


def give_marker(table: Table, table_cache: TableCache, principal: Principal) -> Table:
    """Give a table whose files have no row marker one, because its rows are not inserts. Raises TableMoved."""
    with translated_errors(), table_cache.begin() as connection:
        wanted = replace(table.schema, bare=False)
        registration = evolve_table(connection, table, wanted, marker_first=table_cache.marker_first)
        record_registration(connection, registration, principal.key_id, "changes")
    table_cache.forget_table(table.name)
    if registration.table.schema.bare:
        raise TableMoved
    return registration.table
