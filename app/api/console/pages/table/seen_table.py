"""Finds the table of a page for its user, and makes the head of the page."""

from dataclasses import dataclass
from typing import Final

from app.api.auth.dependencies import visible_name
from app.api.console.sessions import SignedIn
from app.api.operations.visible_tables import visible_table
from app.console.views.table.head import TableHead, head_of
from app.domain.access.rights import Right
from app.domain.model.names import TableName
from app.domain.model.table import Table
from app.staging.connection.database import Connection
from app.staging.tables.registry import find_table

PATH: Final = "/console/tables/{table}"
MAX_DIGITS: Final = 18
"""Digits of a number in an address; Postgres stores every such number."""


@dataclass(frozen=True, slots=True)
class SeenTable:
    """A table that the user may read."""

    table: Table
    head: TableHead
    is_admin: bool
    may_send: bool
    """Whether the user has the right `ingest` for the table."""


def seen_table(connection: Connection, user: SignedIn, text: str, tab: str) -> SeenTable:
    """Return the table of a page. Raises RejectedInput `forbidden`, `bad_name` or `unknown_table`."""
    table = visible_table(connection, text, user.require(Right.READ))
    is_admin, may_send = (user.may(right, table.name) for right in (Right.ADMIN, Right.INGEST))
    return SeenTable(table, head_of(str(table.name), table, tab, is_admin=is_admin), is_admin, may_send)


def seen_name(connection: Connection, user: SignedIn, text: str, tab: str) -> tuple[TableName, TableHead]:
    """Return a name that its administrator sees, whether a table has it now or had it before.

    Raises RejectedInput `forbidden`, `bad_name` or `unknown_table`.
    """
    name = visible_name(text, user.require(Right.ADMIN))
    table = find_table(connection, name)
    return name, head_of(str(table.name if table is not None else name), table, tab, is_admin=True)


def number_in(text: str, default: int) -> int:
    """Return a whole number of an address; a text that is none counts as left out."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else default
