"""An operator who knows only the console finds each fault, does what it says, and sees it mended; and rebuilds a table.

Each test causes its fault for real: nothing is written into the gateway's tables that its own programs would write.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from spark_jobs.fabric_status import FabricWatcher
from tests.api.console.browser.site import Site, has_own_disk, running_site
from tests.api.console.browser.visitor import Visitor, visiting
from tests.support.fabric.endpoint import Fabric
from tests.support.fabric.fixtures import OpenClient
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

WELL = "Nothing needs attention."


@dataclass
class Operator:
    """Somebody with a browser, who begins each time with the overview."""

    visitor: Visitor
    site: Site

    def finds(self, title: str, *words: str) -> Locator:
        """Return the trouble of this title, the only one on the overview, which has these words in its text."""

        def shown() -> bool:
            return self.reads() == [title]

        wait_until(shown, within=60, what=f"the overview names {title}")
        trouble = self.visitor.page.locator(".attention > li")
        for word in words:
            expect(trouble).to_contain_text(word)
        return trouble

    def sees_that_all_is_well(self) -> None:
        def shown() -> bool:
            return self.reads() == []

        wait_until(shown, within=60, what="the overview names no trouble")
        expect(self.visitor.page.get_by_text(WELL)).to_be_visible()
        expect(self.visitor.page.locator(".sections .badge")).to_have_count(0)
        assert self.visitor.complaints == []

    def follows(self, trouble: Locator) -> None:
        """Open the page that the trouble leads to."""
        with self.visitor.page.expect_navigation():
            trouble.get_by_role("link").first.click()

    def reads(self) -> list[str] | None:
        """Return the titles of all troubles on the overview, None if there is no overview."""
        if not self.visitor.open("/console").ok:
            return None
        return self.visitor.page.locator(".attention .title > :nth-child(2)").all_inner_texts()


@pytest.fixture(scope="module")
def site(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture
def operator(chromium: Browser, site: Site) -> Iterator[Operator]:
    """Give an operator in front of a gateway in which all is well."""
    with visiting(chromium, site.gateway.address) as visitor:
        visitor.sign_in()
        someone = Operator(visitor, site)
        someone.sees_that_all_is_well()
        yield someone


def test_a_quarantined_table(operator: Operator, site: Site) -> None:
    site.register("sales.orders")
    site.send("sales.orders", "1.00")
    site.publish()
    last = Path(site.gateway.status("sales.orders")["last_file"])
    number = int(last.stem) + 1
    foreign = site.zone / "sales.schema" / "orders" / f"{number:020}.parquet"
    foreign.write_bytes(b"written by another program")
    site.send("sales.orders", "2.00")
    site.publish()

    trouble = operator.finds(
        "sales.orders",
        "quarantined",
        f"foreign_file: another file has number {number}",
        "move the file out of the landing zone",
    )
    foreign.unlink()
    operator.follows(trouble)
    page = operator.visitor.page
    page.get_by_role("link", name="Release…").click()
    page.get_by_label("What did you find and do?").fill("A copy job wrote into the zone; I moved its file away.")
    page.get_by_label("Type the generation").fill("1")
    operator.visitor.submit("Release the table")
    expect(page.get_by_role("status").first).to_be_visible()
    site.publish()
    assert site.gateway.status("sales.orders")["lag"]["rows"] == 0
    operator.sees_that_all_is_well()


@pytest.mark.skipif(not has_own_disk(), reason="only root may mount a small disk")
def test_a_full_disk(operator: Operator, site: Site) -> None:
    site.register("sales.invoices")
    site.send("sales.invoices", "1.00")
    site.publish()
    filler = site.zone.parent / "zone" / "left-behind.bin"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(2**20))
    operator.finds("A disk is nearly full", str(site.zone))
    site.send("sales.invoices", "2.00")
    for _ in range(3):
        site.publish()
    assert operator.reads() == ["A disk is nearly full", "sales.invoices"]
    trouble = operator.visitor.page.locator(".attention > li").nth(1)
    expect(trouble).to_contain_text("ENOSPC")
    expect(trouble).to_contain_text("Free space")

    filler.unlink()
    site.publish()
    operator.sees_that_all_is_well()


def test_a_paused_database(operator: Operator, site: Site, fabric: Fabric, open_client: OpenClient) -> None:
    site.register("sales.payments")
    site.publish()
    database = fabric.service.add("orders")
    with closing(FabricWatcher(site.engine, partial(open_client, patience=5.0), 0.0)) as watcher:
        watcher.poll()
        operator.sees_that_all_is_well()
        database.status, fabric.service.capacity_state = "Paused", "Paused"
        watcher.poll()
        operator.finds("Fabric has paused mirroring", "fabric", "capacity")
        database.status, fabric.service.capacity_state = "Running", "Active"
        watcher.poll()
        operator.sees_that_all_is_well()


def test_a_stopped_drain(operator: Operator, site: Site) -> None:
    site.register("sales.refunds")
    site.publish()
    site.stop_drain()
    site.send("sales.refunds", "1.00")
    trouble = operator.finds("Nothing is published", "drain", "Start a drain with mirrorgate drain")
    operator.follows(trouble)
    expect(operator.visitor.page).to_have_title("Doctor – Mirrorgate")
    site.start_drain()
    site.publish()
    assert site.gateway.status("sales.refunds")["lag"]["rows"] == 0
    operator.sees_that_all_is_well()


def test_dead_letters(operator: Operator, site: Site) -> None:
    site.register("sales.returns")
    site.send("sales.returns", "1.00", "1,50", "2.00")
    site.publish()
    trouble = operator.finds("sales.returns", "dead letters", "1 rejected message waits", "correct and replay")
    operator.follows(trouble)
    page = operator.visitor.page
    page.locator("main tbody").get_by_role("link").first.click()
    page.get_by_role("link", name="Show the message").click()
    message = page.get_by_label("Message as it was sent")
    message.fill(message.input_value().replace("1,50", "1.50"))
    operator.visitor.submit("Replay")
    expect(page.get_by_text("the dead letter is replayed")).to_be_visible()
    site.publish()
    assert site.gateway.status("sales.returns")["lag"]["rows"] == 0
    operator.sees_that_all_is_well()


def test_an_unsafe_setting_of_postgres(operator: Operator, site: Site) -> None:
    site.change_role("ALTER ROLE gateway SET synchronous_commit = off")
    trouble = operator.finds("Postgres can lose acknowledged changes", "synchronous_commit", "What to do:")
    operator.follows(trouble)
    finding = operator.visitor.page.get_by_role("row").filter(has_text="synchronous_commit")
    expect(finding).to_contain_text("What to do:")
    site.change_role("ALTER ROLE gateway RESET synchronous_commit")
    operator.sees_that_all_is_well()


@pytest.mark.thorough
@pytest.mark.spark
def test_a_killed_drain_process(operator: Operator, site: Site) -> None:
    site.register("sales.shipments")
    site.publish()
    site.stop_drain()
    with site.drain_process() as process:
        operator.sees_that_all_is_well()
        process.kill()
        site.send("sales.shipments", "1.00")
        operator.finds("Nothing is published", "Start a drain with mirrorgate drain")
    with site.drain_process():
        operator.sees_that_all_is_well()
        wait_until(
            lambda: site.gateway.status("sales.shipments")["lag"]["rows"] == 0, within=60, what="the row is published"
        )
        operator.sees_that_all_is_well()
    site.start_drain()


SECONDS: float = 120_000
ORDERS = "/console/tables/sales.orders"


@pytest.mark.thorough
@pytest.mark.spark
def test_a_key_and_a_type_are_changed_by_the_forms_alone(chromium: Browser, tmp_path: Path) -> None:
    with running_site(tmp_path) as site, visiting(chromium, site.gateway.address) as visitor:
        columns = {"order_id": "int64", "region": "string", "total": "decimal(12,2)"}
        site.gateway.register("sales.orders", columns, ["order_id"], row_images="on").raise_for_status()
        rows = [{"order_id": number, "region": f"r{number % 3}", "total": "70000.50"} for number in range(200)]
        site.gateway.rows("sales.orders", *rows).raise_for_status()
        site.publish()
        site.stop_drain()
        visitor.sign_in()
        page = visitor.page
        with site.drain_process():
            visitor.open(ORDERS)
            with page.expect_navigation():
                page.get_by_role("link", name="Rebuild…").click()
            page.get_by_label("Key columns").fill("region\norder_id")
            page.get_by_label("Other types").fill("total: int16")
            visitor.submit("Check the plan")
            refused = page.get_by_role("region", name="Rows that do not fit")
            expect(refused).to_contain_text("total", timeout=SECONDS)
            expect(refused.locator("tbody tr")).to_contain_text("200")
            expect(page.get_by_role("link", name="Rebuild by this plan…")).to_have_count(0)
            visitor.open(f"{ORDERS}/rebuild")
            page.get_by_label("Other types").fill("total: decimal(18,4)")
            visitor.submit("Check the plan")
            with page.expect_navigation(timeout=SECONDS):
                page.get_by_role("link", name="Rebuild by this plan…").click(timeout=SECONDS)
            page.get_by_label("Type the generation").fill("1")
            visitor.submit("Rebuild the table")
            expect(page.get_by_text("Generation 2 has the rows of 200 row images")).to_be_visible(timeout=SECONDS)
        found = site.gateway.status("sales.orders")
        assert (found["generation"], found["key_columns"]) == (2, ["region", "order_id"])
        assert found["published"]["rows"] == 200
        assert visitor.complaints == []
