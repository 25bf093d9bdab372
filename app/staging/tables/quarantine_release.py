"""Ends quarantines, of one table or of all with one reason, and requests to rewrite a damaged folder marker.

A table is named by the generation in which it was found quarantined, so a table that was recreated meanwhile is left
alone.
"""

from dataclasses import dataclass, replace
from typing import Final

import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import Epoch, Generation, Table, TableId, TableState
from app.errors import Code, RejectedInput
from app.staging.ledger.leases import check_epoch
from app.staging.tables.events import record_event
from app.staging.tables.operations import locked_table

RELEASE = sa.text("""
    UPDATE mirrorgate.tables SET state = 'active', state_reason = NULL, rewrite_marker = :rewrite_marker
    WHERE table_id = :table_id AND state = 'quarantined'""")
"""Make a quarantined table active, and ask for a new marker or not."""

SELECT_QUARANTINED = sa.text("""
    SELECT name, generation, state_reason FROM mirrorgate.tables
    WHERE state = 'quarantined' AND split_part(state_reason, ':', 1) = :code ORDER BY table_id""")
"""List the tables that stopped for a reason."""

SELECT_REWRITE = sa.text("SELECT rewrite_marker FROM mirrorgate.tables WHERE table_id = :table_id")
"""Tell whether an operator asked for a new marker."""

END_REWRITE = sa.text("UPDATE mirrorgate.tables SET rewrite_marker = false WHERE table_id = :table_id")
"""End the request for a new marker."""

_PASSED_OVER: Final = frozenset({Code.UNKNOWN_TABLE, Code.GENERATION_MISMATCH, Code.WRONG_TABLE_STATE})
"""Errors of a table that another caller has released, recreated or dropped meanwhile."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A quarantined table, and why it stopped."""

    name: TableName
    generation: Generation
    why: str


def release(
    connection: sa.Connection,
    name: TableName,
    generation: Generation,
    actor: str,
    reason: str,
    *,
    rewrite_marker: bool = False,
) -> Table:
    """Let a quarantined table publish again, after an operator has decided.

    With `rewrite_marker` the next owner first writes `_gateway.json` again, if the ledger's files prove that the folder
    is the table's. Raises RejectedInput `unknown_table`, `generation_mismatch` or `wrong_table_state`.
    """
    table = locked_table(connection, name, generation)
    released = {"table_id": table.table_id, "rewrite_marker": rewrite_marker}
    if table.state is not TableState.QUARANTINED or connection.execute(RELEASE, released).rowcount == 0:
        raise RejectedInput(Code.WRONG_TABLE_STATE, f"table {table.name} is {table.state}")
    record_event(
        connection, table, actor, "release", reason, details={"rewrite_marker": True} if rewrite_marker else {}
    )
    return replace(table, state=TableState.ACTIVE)


def quarantined_by(connection: sa.Connection, code: Code) -> list[Quarantined]:
    """Return the tables that stopped for this reason, in the order of their ids."""
    rows = connection.execute(SELECT_QUARANTINED, {"code": str(code)})
    return [Quarantined(TableName.parse(row.name), Generation(row.generation), row.state_reason) for row in rows]


def release_if_still(connection: sa.Connection, found: Quarantined, actor: str, reason: str) -> bool:
    """Release a table as it was found; return False if it was released, recreated or dropped meanwhile."""
    try:
        release(connection, found.name, found.generation, actor, reason)
    except RejectedInput as error:
        if error.code not in _PASSED_OVER:
            raise
        return False
    return True


def is_marker_to_be_rewritten(connection: sa.Connection, table_id: TableId) -> bool:
    """Tell whether an operator asked for a new `_gateway.json`."""
    return bool(connection.execute(SELECT_REWRITE, {"table_id": table_id}).scalar())


def end_marker_rewrite(connection: sa.Connection, table_id: TableId, epoch: Epoch) -> None:
    """End the request for a new marker, which is carried out or was rejected.

    A process that dies before the commit leaves the request to the next owner. Raises InvariantBroken `stale_epoch`.
    """
    check_epoch(connection, table_id, epoch)
    connection.execute(END_REWRITE, {"table_id": table_id})
