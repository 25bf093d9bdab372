"""Forms about one table: who sent them, and the generation that their page showed, so that no next one is changed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Response

from app.api.console.answers import page, see_other
from app.api.console.forms import ConsoleForm, Form
from app.api.console.pages.table.seen_table import SeenTable, seen_table
from app.api.console.rejections import Rejected, rejected
from app.api.console.sessions import ConsoleUser, SignedIn
from app.api.gateway import Gateway, GatewayDep
from app.api.operations.table_operations import TableOperation
from app.api.operations.visible_tables import visible_table
from app.console.views.attention import address
from app.console.views.table.operations import Action
from app.domain.access.rights import Right
from app.domain.model.table import Generation
from app.errors import Code, RejectedInput, TemporarilyUnavailable
from app.staging.connection.database import Connection


@dataclass(frozen=True, slots=True)
class Visit:
    """A request about one table by a signed-in user."""

    table: str
    request: Request
    user: SignedIn
    gateway: Gateway

    def administered(self, connection: Connection) -> SeenTable:
        """Return the table if the user is its administrator. Raises RejectedInput `forbidden` or `unknown_table`."""
        visible_table(connection, self.table, self.user.require(Right.ADMIN))
        return seen_table(connection, self.user, self.table, "")

    def page(self, template: str, view: object, found: Rejected | None = None) -> Response:
        """Return a page about the table, with the status of what was rejected."""
        status = 200 if found is None else found.status
        return page(self.request, template, view, self.user.chrome("tables"), status=status)


@dataclass(frozen=True, slots=True)
class Submission:
    """A form about one table, with the generation to act on."""

    visit: Visit
    form: Form

    def attempt(self, act: Callable[[TableOperation], object]) -> Rejected | None:
        """Act on the generation in the form; return what rejected it, None if it is done.

        Raises RejectedInput `forbidden`, and `unknown_table` if there is no page to show an error on.
        """
        visit, principal = self.visit, self.visit.user.require(Right.ADMIN)
        try:
            act(TableOperation(visit.table, Generation(self.form.number("generation")), visit.gateway, principal))
        except (RejectedInput, TemporarilyUnavailable) as error:
            if error.code is Code.UNKNOWN_TABLE:
                raise
            return rejected(visit.request, error)
        return None

    def done(self, action: Action) -> Response:
        """Go to the page of the table, which says what the action did."""
        return see_other(f"{address(self.visit.table)}?done={action}")


async def _visit(table: str, request: Request, user: ConsoleUser, gateway: GatewayDep) -> Visit:
    return Visit(table, request, user, gateway)


VisitDep = Annotated[Visit, Depends(_visit)]


async def _submission(visit: VisitDep, form: ConsoleForm) -> Submission:
    return Submission(visit, form)


SubmissionDep = Annotated[Submission, Depends(_submission)]
