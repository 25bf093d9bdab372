"""The addresses of pages: of a table, of a list with its filters, and of the entries before and after those shown."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from app.staging.connection.page_turn import Page

FRAGMENTS: Final = "/console/fragments"
"""Paths of the parts of pages that refresh themselves."""


class Links(NamedTuple):
    """The addresses of the pages with newer and older entries; None where there are none."""

    newer: str | None
    older: str | None


def table_path(table: str) -> str:
    """Return the address of a table's page."""
    return f"/console/tables/{quote(table, safe='')}"


def key_path(key_id: str) -> str:
    """Return the address of a key's page."""
    return f"/console/keys/{quote(key_id, safe='')}"


def link(path: str, **parameters: object) -> str:
    """Return an address with those parameters that are neither None nor empty."""
    query = urlencode({name: value for name, value in parameters.items() if value not in (None, "")})
    return f"{path}?{query}" if query else path


def links_of(page: Page[Any], path: str, filters: Mapping[str, object]) -> Links:
    """Return the links of a page of entries that are ordered by id."""
    return Links(
        None if page.newer_after is None else link(path, **filters, after=page.newer_after),
        None if page.older_before is None else link(path, **filters, before=page.older_before),
    )
