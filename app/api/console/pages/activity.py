"""`/console/audit` and `/console/producers`: what callers did, and how far each producer of numbered requests is."""

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from app.api.console.answers import page
from app.api.console.sessions import ConsoleUser
from app.api.gateway import GatewayDep
from app.api.operations.keys import caller_names
from app.console.links import Links, link, links_of
from app.domain.access.rights import Right
from app.staging.access.audit_events import AuditSearch, newest_audit
from app.staging.connection.database import translated_errors
from app.staging.connection.page_turn import Turn, cut_page
from app.staging.overview import ListedProducer, ProducerTurn, list_producers

router = APIRouter()

AUDIT: Final = "/console/audit"
PRODUCERS: Final = "/console/producers"
OUTCOMES: Final = ("any", "done", "rejected")
MAX_ROWS: Final = 50
"""Events or producers of a page."""

_Text = Annotated[str, Query(max_length=300, pattern=r"^[^\x00]*$")]
_LongText = Annotated[str, Query(max_length=1100, pattern=r"^[^\x00]*$")]
_Id = Annotated[int | None, Query(ge=0, le=2**63 - 1)]


@router.get(AUDIT)
def audit(
    request: Request,
    user: ConsoleUser,
    gateway: GatewayDep,
    subject: _Text = "",
    table: _Text = "",
    action: _Text = "",
    outcome: _Text = "any",
    before: _Id = None,
    after: _Id = None,
) -> Response:
    """List the events whose strings have these parts: operations on keys and tables, and rejected calls."""
    user.require(Right.ADMIN, every_table=True)
    texts = {"subject": subject.strip(), "table": table.strip(), "action": action.strip()}
    wanted = {"done": False, "rejected": True}.get(outcome)
    given = {name: text or None for name, text in texts.items()}
    search = AuditSearch(given["subject"], given["table"], given["action"], wanted)
    turn = Turn(before, after)
    with translated_errors(), gateway.engine.begin() as connection:
        found = newest_audit(connection, search, turn, MAX_ROWS + 1)
        names = caller_names(gateway, connection, (event.subject for event in found))
    cut = cut_page(found, turn, MAX_ROWS, lambda event: event.event_id)
    return page(
        request,
        "audit.html",
        user.chrome("audit", names=names),
        events=cut.entries,
        filters=texts | {"outcome": OUTCOMES[0] if wanted is None else outcome},
        outcomes=OUTCOMES,
        links=links_of(cut, AUDIT, texts | {"outcome": None if wanted is None else outcome}),
    )


@router.get(PRODUCERS)
def producers(
    request: Request,
    user: ConsoleUser,
    gateway: GatewayDep,
    q: _LongText = "",
    key: _LongText = "",
    producer: _LongText = "",
    back: _LongText = "",
) -> Response:
    """List producers. A producer belongs to a key: only an administrator of all tables sees those of other keys."""
    user.require(Right.INGEST)
    administrator = user.principal(Right.ADMIN)
    sees_all = administrator is not None and administrator.oversees_every_table
    search, turn = q.strip(), ProducerTurn(key or None, producer, bool(back and key))
    owner = None if sees_all else user.credential.subject
    with translated_errors(), gateway.engine.begin() as connection:
        found = list_producers(connection, owner=owner, search=search, turn=turn, limit=MAX_ROWS + 1)
        names = caller_names(gateway, connection, (producer.principal for producer in found))
    shown = found[-MAX_ROWS:] if turn.backwards else found[:MAX_ROWS]
    return page(
        request,
        "producers.html",
        user.chrome("producers", names=names),
        producers=shown,
        search=search,
        links=_around(shown, turn, search, is_more=len(found) > MAX_ROWS),
        sees_all=sees_all,
        receipt_days=gateway.settings.retention_days,
    )


def _around(shown: Sequence[ListedProducer], turn: ProducerTurn, search: str, *, is_more: bool) -> Links:
    """Return the links to the producers before and after those shown."""

    def beyond(edge: ListedProducer, back: str) -> str:
        return link(PRODUCERS, q=search, key=edge.principal, producer=edge.producer, back=back)

    has_before = is_more if turn.backwards else turn.principal is not None
    has_after = turn.backwards or is_more
    return Links(
        beyond(shown[0], "yes") if shown and has_before else None,
        beyond(shown[-1], "") if shown and has_after else None,
    )
