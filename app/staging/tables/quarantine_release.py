"""Ends the quarantine of a table, and requests to rewrite a damaged folder marker.

A table is named by the generation in which it was found quarantined, so a table that was recreated meanwhile is left
alone.
"""

from dataclasses import replace

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

SELECT_REWRITE = sa.text("SELECT rewrite_marker FROM mirrorgate.tables WHERE table_id = :table_id")
"""Tell whether an operator asked for a new marker."""

END_REWRITE = sa.text("UPDATE mirrorgate.tables SET rewrite_marker = false WHERE table_id = :table_id")
"""End the request for a new marker."""


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


def is_marker_to_be_rewritten(connection: sa.Connection, table_id: TableId) -> bool:
    """Tell whether an operator asked for a new `_gateway.json`."""
    return bool(connection.execute(SELECT_REWRITE, {"table_id": table_id}).scalar())


def end_marker_rewrite(connection: sa.Connection, table_id: TableId, epoch: Epoch) -> None:
    """End the request for a new marker, which is carried out or was rejected.

    A process that dies before the commit leaves the request to the next owner. Raises InvariantBroken `stale_epoch`.
    """
    check_epoch(connection, table_id, epoch)
    connection.execute(END_REWRITE, {"table_id": table_id})
