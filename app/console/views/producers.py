"""The list of producers: how far each is, and since when."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.console.views.paging import PageLinks, link
from app.staging.overview.producers import ListedProducer, ProducerTurn

PATH: Final = "/console/producers"


@dataclass(frozen=True, slots=True)
class ProducersView:
    """A page of the list."""

    rows: tuple[ListedProducer, ...]
    search: str
    links: PageLinks
    sees_all: bool
    """False if the user sees the producers of the own key alone."""
    receipt_days: float
    """How long the time of a last request is known."""


def producers_view(
    found: Sequence[ListedProducer], turn: ProducerTurn, size: int, search: str, *, sees_all: bool, receipt_days: float
) -> ProducersView:
    """Return a page of `size` producers, of up to `size + 1` that were read for the turn."""
    is_more = len(found) > size
    rows = tuple(found[-size:] if turn.backwards else found[:size])
    has_before = is_more if turn.backwards else turn.principal is not None
    has_after = turn.backwards or is_more
    links = PageLinks(
        _from(rows[0], search, "yes") if rows and has_before else None,
        _from(rows[-1], search, "") if rows and has_after else None,
    )
    return ProducersView(rows, search, links, sees_all, receipt_days)


def _from(row: ListedProducer, search: str, back: str) -> str:
    return link(PATH, q=search, key=row.principal, producer=row.producer, back=back)
