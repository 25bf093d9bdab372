"""Follows the links of the console from the overview, and looks at each page as its different readers do."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tests.api.console.browser.visitor import DESKTOP, PHONE, Colors, Visitor

NOT_PAGES: Final = re.compile(r"/console/(assets|fragments)/")

LOOKS: Final[Mapping[str, tuple[Colors, tuple[int, int], tuple[str, ...]]]] = {
    "light": ("light", DESKTOP, ()),
    "dark on a phone": ("dark", PHONE, ("color-contrast", "scrollable-region-focusable", "target-size")),
}
"""Colors, size, and the rules of axe-core for which they make a difference; the first look is examined by all rules."""


@dataclass(frozen=True)
class Visit:
    """What a visitor found on a page."""

    path: str
    title: str
    heading: str
    violations: Mapping[str, list[str]]
    """What axe-core found in each look."""
    overflow: list[str]
    """What makes the page scroll sideways on a phone."""
    complaints: list[str]


def tour(visitor: Visitor, *starts: str) -> list[Visit]:
    """Return a visit of each page that the first ones lead to."""
    return [look_at(visitor, path) for path in walk(visitor, *starts)]


def walk(visitor: Visitor, *starts: str) -> Iterator[str]:
    """Yield the path of each page, which is open at that moment.

    Of pages that look alike, such as those of tables, one is visited beside those to start with.
    """
    paths, seen, shapes = [*starts], {*starts}, set[str]()
    for path in paths:
        if path not in starts and shape_of(path) in shapes:
            continue
        shapes.add(shape_of(path))
        visitor.complaints.clear()
        answer = visitor.open(path)
        assert answer.ok, path
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
    stars = ["*" if index == 3 or part.isdecimal() or len(part) == 36 else part for index, part in enumerate(parts)]
    return "/".join(stars) + ("?" if query else "")
