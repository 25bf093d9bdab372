"""The pictures of docs/operate/console.md, of a healthy gateway and of one with faults. `make screenshots` writes them.

They are not compared with the committed ones, because ages and fonts differ; their sizes and their use are checked.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser

from app.domain.fabric import DatabaseState, DatabaseStatus, TableMirroring
from app.staging.ledger.reports import claim_poll, record_fabric_status, store_answer
from tests.api.console.browser.site import Site, running_site
from tests.api.console.browser.stock import Stock
from tests.api.console.browser.visitor import PHONE, Visitor, visiting
from tests.project.facts import REPOSITORY
from tests.support.gateway_parts import current, quarantined
from tests.support.postgres import sql

IMAGES: Final = REPOSITORY / "docs" / "images"
PAGES: Final = (REPOSITORY / "docs" / "operate" / "console.md", REPOSITORY / "README.md")
MAX_IMAGE_BYTES: Final = 150_000
WIDTH: Final = 1160

SHOTS: Final = {
    "overview": ("/console", 920),
    "tables": ("/console/tables", 480),
    "table": ("/console/tables/sales.orders", 1_105),
    "rebuild": ("/console/tables/sales.orders/rebuild", 1_000),
}
"""The path of each picture of the healthy gateway, and its height."""
FAULTS: Final = {"attention": ("/console", 950), "dead-letter": ("/console/dead-letters/1?message=1", 800)}
"""The same of the gateway with faults."""

ROWS: Final = {
    "sales.orders": 5_000,
    "sales.customers": 1_240,
    "hr.people": 312,
    "stock.levels": 2_480,
    "web.clicks": 4_000,
}
CALMER_HOUR: Final = """
    UPDATE mirrorgate.history SET accepted_rows = accepted_rows / 500, published_rows = published_rows / 500,
        pending_rows = pending_rows / 500, table_accepted_rows = ARRAY[accepted_rows / 500],
        table_published_rows = ARRAY[published_rows / 500], table_pending_rows = ARRAY[pending_rows / 500]"""
"""Make the hour of history fit to ROWS."""
AGES: Final = {
    "mirrorgate.table_events": ("happened_at", "action = 'quarantined'", 12),
    "mirrorgate.table_failures": ("since", "true", 4),
    "mirrorgate.dead_letters": ("received_at", "true", 38),
}
"""How long ago each fault began, in minutes."""


@dataclass(frozen=True, kw_only=True)
class Shown(Stock):
    """The tables of the pictures, whose files a drain writes."""

    site: Site

    def fill(self, name: object = None) -> None:
        """Make a gateway without faults, that Fabric reads."""
        for table, rows in ROWS.items():
            self.register(table)
            self.send(table, rows)
        self.site.publish()
        self.hear()
        self.send_by_a_producer("sales.customers")
        self.site.publish()
        self.make_keys()
        self.remember_an_hour("sales.orders")
        sql.run(self.engine, CALMER_HOUR)
        sql.run(self.engine, "ANALYZE")
        self.check_a_rebuild("sales.orders", seconds=2)

    def hear(self) -> None:
        """Store what a drain hears from Fabric's API while it mirrors all rows."""
        said = {}
        for table, rows in ROWS.items():
            found = current(self.engine, table)
            schema, _, name = table.partition(".")
            said[found.table_id, found.generation] = TableMirroring(
                schema, name, "Replicating", rows, rows * 14, last_sync=datetime.now(UTC)
            )
        with self.engine.begin() as connection:
            claim_poll(connection, 60.0)
            store_answer(connection, DatabaseStatus(DatabaseState.RUNNING, "Running"), has_tables=True)
            record_fabric_status(connection, said)

    def harm(self) -> None:
        """Do four faults, which began some minutes ago."""
        reason = "foreign_file: hr.schema/people/00000000000000000003.parquet was not written by this gateway"
        quarantined(self.engine, "hr.people", reason)
        for table in ("hr.people", "stock.levels", "web.clicks"):
            self.send(table, 25, first=10_000)
        self.fail("stock.levels")
        self.pause("web.clicks")
        self.reject("sales.orders")
        for table, (column, which, minutes) in AGES.items():
            sql.run(self.engine, f"UPDATE {table} SET {column} = now() - interval '{minutes} minutes' WHERE {which}")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with running_site(tmp_path_factory.mktemp("site")) as site:
        stock = Shown(site.gateway, site.engine, site=site)
        stock.fill()
        yield stock


@pytest.fixture(scope="module")
def visitor(chromium: Browser, shown: Shown) -> Iterator[Visitor]:
    key = shown.gateway.new_key("admin", name="Dana Weber")["key"]
    with visiting(chromium, shown.gateway.address) as visitor:
        visitor.sign_in(key)
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


@pytest.mark.thorough
def test_the_pictures_of_faults_are_small(visitor: Visitor, shown: Shown, tmp_path: Path) -> None:
    shown.harm()
    for name, (path, height) in FAULTS.items():
        visitor.show(size=(WIDTH, height))
        assert take(visitor, path, tmp_path / f"console-{name}.png") < MAX_IMAGE_BYTES


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
        for found in re.finditer(r"!\[([^\]]*)\]\((?:docs/|\.\./)?images/([\w.-]+)\)", page.read_text(encoding="utf-8"))
    }
    assert (
        shown.keys()
        == {path.name for path in IMAGES.iterdir()}
        == {f"console-{name}.png" for name in (*SHOTS, *FAULTS, "phone")}
    )
    assert all(len(words) > 20 for words in shown.values())
    assert all(path.stat().st_size < MAX_IMAGE_BYTES for path in IMAGES.iterdir())
