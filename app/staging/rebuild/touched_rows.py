"""Rows that batches change while a rebuild copies the row images of their table.

A rebuild copies the images of one snapshot. Each batch after it notes the keys that it changes with the images that the
copies have (`note_touched` in `app.staging.batches.row_images`), so that the rebuild can correct its copies in the end.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import sqlalchemy as sa

from app.domain.model.table import Generation, TableId
from app.staging.connection.database import BINARY_RESULT

SELECT_TOUCHED: Final = """
    SELECT t.row_key, t.image, i.image
    FROM mirrorgate.rebuild_touched t
    LEFT JOIN mirrorgate.row_images i
      ON i.table_id = %(table_id)s AND i.generation = %(generation)s AND i.row_key = t.row_key
    WHERE t.table_id = %(table_id)s ORDER BY t.row_key LIMIT %(limit)s"""
"""Read noted keys, each with the image that the copy has and the present one."""

COUNT_TOUCHED = sa.text("SELECT count(*) FROM mirrorgate.rebuild_touched WHERE table_id = :table_id")
"""Count the noted keys of a table."""

FORGET_TOUCHED: Final = """
    DELETE FROM mirrorgate.rebuild_touched WHERE table_id = %(table_id)s AND row_key = ANY(%(keys)b)"""
"""Forget noted keys."""

CLEAR_TOUCHED = sa.text("DELETE FROM mirrorgate.rebuild_touched WHERE table_id = :table_id")
"""Forget all noted keys of a table."""


class TouchedRow(NamedTuple):
    """A key with the image that the copy has, and the present one; None if there is none."""

    row_key: bytes
    copied: bytes | None
    present: bytes | None


def read_touched(
    connection: sa.Connection, table_id: TableId, generation: Generation, *, limit: int | None = None
) -> list[TouchedRow]:
    """Return noted keys in order, at most `limit` of them. The caller holds the sequence lock."""
    parameters = {"table_id": table_id, "generation": generation, "limit": limit}
    found = connection.exec_driver_sql(SELECT_TOUCHED, parameters, execution_options=BINARY_RESULT)
    return [TouchedRow(*row) for row in found]


def count_touched(connection: sa.Connection, table_id: TableId) -> int:
    """Return the number of noted keys."""
    return int(connection.execute(COUNT_TOUCHED, {"table_id": table_id}).scalar_one())


def forget_touched(connection: sa.Connection, table_id: TableId, keys: Sequence[bytes]) -> None:
    """Forget keys whose copies are correct again, in the transaction that corrected them."""
    connection.exec_driver_sql(FORGET_TOUCHED, {"table_id": table_id, "keys": [*keys]})


def clear_touched(connection: sa.Connection, table_id: TableId) -> None:
    """Forget all noted keys."""
    connection.execute(CLEAR_TOUCHED, {"table_id": table_id})
