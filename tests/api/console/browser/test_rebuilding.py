"""An operator rebuilds a table in the console, and a real drain carries it out: a refused plan, then one that fits."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.api.console.browser.site import running_site
from tests.api.console.browser.visitor import visiting

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
