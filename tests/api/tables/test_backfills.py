"""The progress of a backfill of row images, over HTTP and in the metrics."""

import re

import sqlalchemy as sa

from app.domain.model.names import TableName
from app.staging.images.backfill.progress import Backfill
from app.staging.images.backfill.run import backfill_images
from tests.api.calls import Gateway, insert

ORDERS = TableName.parse("orders")


def test_status_and_metrics_show_how_far_it_is(gateway: Gateway, api_engine: sa.Engine) -> None:
    for name in ("orders", "quiet"):
        gateway.register(name, {"id": "int64"}, ["id"]).raise_for_status()
    for key in "12":
        gateway.arcion(insert("orders", id=key)).raise_for_status()
    assert gateway.status("orders")["backfill"] is None
    gateway.put("/v1/tables/orders", json={"options": {"row_images": "on"}}).raise_for_status()
    shown, scraped = [], []

    def look(_: Backfill) -> None:
        shown.append(gateway.status("orders")["backfill"])
        scraped.append(gateway.get("/metrics").text)

    backfill_images(api_engine, ORDERS, look)
    halfway = shown[1]
    assert (halfway["state"], halfway["step"], halfway["mirror_version"]) == ("running", "payloads", None)
    assert (halfway["rows_done"], halfway["rows_total"]) == (1, 2)
    assert (halfway["batches_done"], halfway["batches_total"], halfway["finished_at"]) == (1, 2, None)
    done = gateway.status("orders")
    assert (done["backfill"]["state"], done["row_images"]["complete"]) == ("done", True)
    values = dict(re.findall(r'^mirrorgate_image_backfill_(\w+)\{table="orders"\} (\S+)$', scraped[1], re.MULTILINE))
    assert values == {"rows": "1.0", "expected_rows": "2.0", "batches": "1.0"}
    assert 'mirrorgate_image_backfill_state{state="running",table="orders"} 1.0' in scraped[1]
    assert not re.search(r'mirrorgate_image_backfill_\w+\{[^}]*table="quiet"', scraped[1])
