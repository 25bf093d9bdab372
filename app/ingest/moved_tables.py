"""Repeats an attempt whose tables changed between typing and staging.

Typing needs no lock, so a table can change its schema, options or generation before the sequence lock is taken. The
lock notices that (`TableMoved`) and nothing is staged; the next attempt sees the table as it is then.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from app.errors import Code, TemporarilyUnavailable
from app.staging.batches.batch import TableMoved

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
