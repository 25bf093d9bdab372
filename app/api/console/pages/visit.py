"""A visit of the pages of one table: the user, what the user may see of the table, and the forms about it.

A form names the generation that its page showed, so it never changes the next one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Response

from app.api.auth.dependencies import visible_name
from app.api.console.answers import ConsoleForm, ConsoleUser, FormFields, SignedIn
from app.api.gateway import Gateway
from app.api.operations.table_operations import TableOperation, visible_table
from app.console.render import FRAGMENTS, Notice
from app.console.table import TableHead
from app.domain.access.rights import Right
from app.domain.model.table import Generation, Table
from app.staging.connection.database import Connection
from app.staging.tables.registry import find_table
from mirrorgate.errors import Code, RejectedInput, TemporarilyUnavailable

PATH: Final = "/console/tables/{table}"
FRAGMENT: Final = f"{FRAGMENTS}/tables/{{table}}"
MAX_DIGITS: Final = 18
"""Digits of a number in an address; Postgres stores every such number."""

_WITHOUT_PAGE: Final = frozenset({Code.UNKNOWN_TABLE, Code.UNKNOWN_LOAD})
"""Errors of a form for which the table has no page that could show them."""


@dataclass(frozen=True, slots=True)
class SeenTable:
    """A table that the user may read."""

    table: Table
    head: TableHead
    may_send: bool
    """True if the user has the right `ingest` for the table."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A request about one table by a signed-in user."""

    table: str
    user: SignedIn

    @property
    def gateway(self) -> Gateway:
        """The gateway that serves the request."""
        return self.user.gateway

    def seen(self, connection: Connection, tab: str = "", *, right: Right = Right.READ) -> SeenTable:
        """Return the table if the user has this right for it, and may read it.

        Raises RejectedInput `forbidden`, `bad_name` or `unknown_table`.
        """
        if right is not Right.READ:
            visible_table(connection, self.table, self.user.require(right))
        table = visible_table(connection, self.table, self.user.require(Right.READ))
        is_admin, may_send = (self.user.may(each, table.name) for each in (Right.ADMIN, Right.INGEST))
        return SeenTable(table, TableHead(str(table.name), table, tab, is_admin), may_send)

    def head_of_name(self, connection: Connection, tab: str) -> TableHead:
        """Return the head of a name that its administrator sees, whether a table has it now or had it before.

        Raises RejectedInput `forbidden`, `bad_name` or `unknown_table`.
        """
        name = visible_name(self.table, self.user.require(Right.ADMIN))
        table = find_table(connection, name)
        return TableHead(str(table.name if table is not None else name), table, tab, is_admin=True)

    def number(self, name: str, default: int) -> int:
        """Return a whole number of the address; a string that is none counts as left out."""
        request = self.user.request
        given = request.path_params.get(name, request.query_params.get(name, ""))
        return number_in(str(given), default)

    def page(
        self,
        template: str,
        head: TableHead,
        *,
        notice: Notice | None = None,
        names: Mapping[str, str] | None = None,
        **values: object,
    ) -> Response:
        """Return a page about the table, or a part of one; `names` are those of keys that it shows."""
        status = 200 if notice is None else notice.status
        return self.user.page(template, "tables", names=names, status=status, head=head, notice=notice, **values)


@dataclass(frozen=True, slots=True)
class Submission:
    """A form about one table."""

    visit: Visit
    form: FormFields

    @property
    def operation(self) -> TableOperation:
        """The operation on the generation in the form. Raises RejectedInput `bad_request`."""
        visit, generation = self.visit, Generation(self.form.number("generation"))
        return TableOperation(visit.table, generation, visit.gateway, visit.user.require(Right.ADMIN))

    def attempt(self, call: Callable[["Submission"], object], right: Right = Right.ADMIN) -> Notice | bool:
        """Act as the form asks. Return the notice of a rejection, False if there was nothing to do, otherwise True.

        Raises RejectedInput `forbidden`, and an error that no page of the table can show.
        """
        self.visit.user.require(right)
        try:
            return call(self) is not False
        except (RejectedInput, TemporarilyUnavailable) as error:
            if error.code in _WITHOUT_PAGE:
                raise
            return self.visit.user.rejected(error)


def number_in(text: str, default: int) -> int:
    """Return a whole number of an address; a string that is none counts as left out."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else default


async def _visit(table: str, user: ConsoleUser) -> Visit:
    return Visit(table, user)


VisitDep = Annotated[Visit, Depends(_visit)]


async def _submission(visit: VisitDep, form: ConsoleForm) -> Submission:
    return Submission(visit, form)


SubmissionDep = Annotated[Submission, Depends(_submission)]
