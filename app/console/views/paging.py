"""The links of a list: to the entries that are newer and older, with the filters of the page."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from app.staging.connection.page_turn import Page


@dataclass(frozen=True, slots=True)
class PageLinks:
    """The addresses of the pages with newer and older entries; None where there are none."""

    newer: str | None
    older: str | None


def link(path: str, **parameters: object) -> str:
    """Return an address with those parameters that are neither None nor empty."""
    query = urlencode({name: value for name, value in parameters.items() if value not in (None, "")})
    return f"{path}?{query}" if query else path


def links_of(page: Page[Any], path: str, filters: Mapping[str, object]) -> PageLinks:
    """Return the links of a page of entries that are ordered by id."""
    return PageLinks(
        None if page.newer_after is None else link(path, **filters, after=page.newer_after),
        None if page.older_before is None else link(path, **filters, before=page.older_before),
    )
