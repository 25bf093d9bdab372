"""Follows the links of the console from the overview, and looks at each page as its different readers do."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tests.api.console.browser.visitor import DESKTOP, PHONE, Colors, Visitor

MAX_EACH: Final = 3
"""Pages of one shape, such as those of tables, that are visited; of those that differ by a query, one."""

NOT_PAGES: Final = re.compile(r"/console/(assets|fragments)/")

LOOKS: Final[Mapping[str, tuple[Colors, tuple[int, int]]]] = {
    "light": ("light", DESKTOP),
    "dark": ("dark", DESKTOP),
    "phone": ("light", PHONE),
}


@dataclass(frozen=True)
class Visit:
    """What a visitor found on a page."""

    path: str
    status: int
    title: str
    heading: str
    violations: Mapping[str, list[str]]
    """What axe-core found in each look."""
    overflow: list[str]
    """What makes the page scroll sideways on a phone."""
    complaints: list[str]


def tour(visitor: Visitor, start: str = "/console") -> list[Visit]:
    """Return a visit of each page; a table's page stands for the pages of all tables."""
    return [look_at(visitor, path) for path in walk(visitor, start)]


def walk(visitor: Visitor, start: str = "/console") -> Iterator[str]:
    """Yield the path of each page, which is open at that moment."""
    paths, seen = [start], {start}
    shapes: dict[str, int] = {}
    for path in paths:
        shape = shape_of(path)
        shapes[shape] = shapes.get(shape, 0) + 1
        if shapes[shape] > (1 if "?" in path else MAX_EACH):
            continue
        visitor.complaints.clear()
        answer = visitor.open(path)
        if answer.status == 404:
            continue  # a section of which this version has no page
        found = [link for link in visitor.links() if link not in seen and not NOT_PAGES.match(link)]
        seen.update(found)
        paths += found
        yield path


def look_at(visitor: Visitor, path: str) -> Visit:
    """Return what there is to find on the open page."""
    found: dict[str, list[str]] = {}
    for name, (colors, size) in LOOKS.items():
        visitor.show(colors=colors, size=size)
        found[name] = visitor.violations()
    overflow = visitor.overflow()
    visitor.show()
    return Visit(
        path=path,
        status=200,
        title=visitor.page.title(),
        heading=visitor.page.locator("h1").inner_text(),
        violations=found,
        overflow=overflow,
        complaints=list(visitor.complaints),
    )


def shape_of(path: str) -> str:
    """Return what a path has in common with those of similar pages: `/console/tables/*`, or the names of its query."""
    page, _, query = path.partition("?")
    parts = page.split("/")
    fields = sorted(field.partition("=")[0] for field in query.split("&")) if query else []
    return "/".join([*parts[:3], *("*" if index == 0 else part for index, part in enumerate(parts[3:]))]) + "?".join(
        ["", *fields]
    )
