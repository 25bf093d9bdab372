"""Follows the links of the console from the overview, and looks at each page as its different readers do."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tests.api.console.browser.visitor import DESKTOP, PHONE, Colors, Visitor

MAX_EACH: Final = 2
"""Pages of things of one kind, such as tables, that are visited. Of other pages that look alike, one is."""

NOT_PAGES: Final = re.compile(r"/console/(assets|fragments)/")

LOOKS: Final[Mapping[str, tuple[Colors, tuple[int, int], tuple[str, ...]]]] = {
    "light": ("light", DESKTOP, ()),
    "dark": ("dark", DESKTOP, ("color-contrast",)),
    "phone": ("light", PHONE, ("color-contrast", "scrollable-region-focusable", "target-size")),
}
"""Colors, size, and the rules of axe-core for which they make a difference; the first look is examined by all rules."""


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


def tour(visitor: Visitor, *starts: str) -> list[Visit]:
    """Return a visit of each page that the first ones lead to; one table's pages stand for those of all tables."""
    return [look_at(visitor, path) for path in walk(visitor, *starts)]


def walk(visitor: Visitor, *starts: str) -> Iterator[str]:
    """Yield the path of each page, which is open at that moment."""
    paths, seen = [*starts], {*starts}
    shapes: dict[str, int] = {}
    for path in paths:
        shape = shape_of(path)
        shapes[shape] = shapes.get(shape, 0) + 1
        if shapes[shape] > (MAX_EACH if shape.endswith("*") else 1):
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
    for name, (colors, size, rules) in LOOKS.items():
        visitor.show(colors=colors, size=size)
        found[name] = visitor.violations(*rules)
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
    """Return what a path has in common with those of similar pages, such as `/console/tables/*/files/*`."""
    page, _, query = path.partition("?")
    parts = page.split("/")
    stars = ["*" if index == 3 or part.isdecimal() else part for index, part in enumerate(parts)]
    return "/".join(stars) + ("?" if query else "")
