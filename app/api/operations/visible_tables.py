"""Finds tables that a caller may see: one by its name, or the summaries of all."""

from app.api.auth.dependencies import visible_name
from app.domain.access.rights import Principal
from app.domain.health.facts import TableSummary
from app.domain.model.names import TableName, unknown_table
from app.domain.model.table import Table
from app.staging.connection.database import Connection
from app.staging.overview.table_summaries import table_summaries
from app.staging.tables.registry import find_table


def found_table(connection: Connection, name: TableName) -> Table:
    """Return the live table of this name. Raises RejectedInput `unknown_table`."""
    table = find_table(connection, name)
    if table is None:
        raise unknown_table(name)
    return table


def visible_table(connection: Connection, text: str, principal: Principal) -> Table:
    """Return the live table of this name if the caller may see it. Raises RejectedInput `bad_name`, `unknown_table`."""
    return found_table(connection, visible_name(text, principal))


def visible_summaries(connection: Connection, principal: Principal) -> list[TableSummary]:
    """Return the live tables that the caller may see, by name, read in one statement."""
    found = table_summaries(connection)
    if principal.oversees_every_table:
        return found
    return [summary for summary in found if principal.may_touch(TableName.parse(summary.name))]
