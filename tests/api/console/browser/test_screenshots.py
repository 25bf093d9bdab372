"""The pictures of docs/operate/console.md, taken of a gateway with a few faults. `make screenshots` writes them.

They are not compared with the committed ones, because ages and fonts differ; their sizes and their use are checked.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser

from tests.api.console.browser.site import Site, running_site
from tests.api.console.browser.stock import Stock
from tests.api.console.browser.visitor import PHONE, Visitor, visiting
from tests.project.facts import REPOSITORY

IMAGES: Final = REPOSITORY / "docs" / "images"
PAGES: Final = (REPOSITORY / "docs" / "operate" / "console.md", REPOSITORY / "README.md")
MAX_IMAGE_BYTES: Final = 150_000
WIDTH: Final = 1160

SHOTS: Final = {
    "overview": ("/console", 950),
    "tables": ("/console/tables", 480),
    "table": ("/console/tables/sales.orders", 1340),
    "rebuild": ("/console/tables/sales.orders/rebuild", 1_000),
    "dead-letter": ("/console/dead-letters/1?message=1", 800),
}
"""The path of each picture, and its height."""


@dataclass(frozen=True, kw_only=True)
class PublishedStock(Stock):
    """Tables whose files a drain writes."""

    site: Site

    def publish(self, table: str) -> None:
        self.site.publish()


@pytest.fixture(scope="module")
def visitor(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    with running_site(tmp_path_factory.mktemp("site")) as site:
        stock = PublishedStock(site.gateway, site.engine, site=site)
        stock.fill()
        for table in ("sales.orders", "stock.levels", "web.clicks"):
            stock.send(table, 25, first=1_000)
        with visiting(chromium, site.address) as visitor:
            visitor.sign_in()
            yield visitor


@pytest.mark.thorough
@pytest.mark.parametrize("name", SHOTS)
def test_the_picture_of_the_page_is_small(visitor: Visitor, tmp_path: Path, name: str) -> None:
    path, height = SHOTS[name]
    visitor.show(size=(WIDTH, height))
    assert take(visitor, path, tmp_path / f"console-{name}.png") < MAX_IMAGE_BYTES


@pytest.mark.thorough
def test_the_picture_of_a_phone_is_small(visitor: Visitor, tmp_path: Path) -> None:
    visitor.show(size=PHONE, colors="dark")
    assert take(visitor, "/console", tmp_path / "console-phone.png") < MAX_IMAGE_BYTES


def take(visitor: Visitor, path: str, file: Path) -> int:
    """Take a picture of a page once its plots are drawn, and return its size in bytes."""
    assert visitor.open(path).ok
    visitor.page.wait_for_load_state("networkidle")
    written = IMAGES / file.name if os.environ.get("MIRRORGATE_SCREENSHOTS") else file
    return len(visitor.page.screenshot(path=written, animations="disabled", caret="hide"))


def test_every_picture_is_shown_with_words_for_those_who_do_not_see_it() -> None:
    shown = {
        found[2]: found[1]
        for page in PAGES
        for found in re.finditer(r"!\[([^\]]*)\]\((?:docs/)?images/([\w.-]+)\)", page.read_text(encoding="utf-8"))
    }
    assert (
        shown.keys()
        == {path.name for path in IMAGES.iterdir()}
        == {f"console-{name}.png" for name in (*SHOTS, "phone")}
    )
    assert all(len(words) > 20 for words in shown.values())
    assert all(path.stat().st_size < MAX_IMAGE_BYTES for path in IMAGES.iterdir())
