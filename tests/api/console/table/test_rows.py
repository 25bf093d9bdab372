"""Rows of a mirrored table in the console: newest and older versions, odd values, and why there are none."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.api.calls import Gateway, own_gateway
from tests.api.console.conftest import SignIn
from tests.api.console.plain_browser import Browser, check_markup, signed_in

ROWS = "/console/tables/sales.orders/rows"
HOSTILE = "<script>alert(1)</script>\"'\n\u202eevil"


@pytest.fixture
def mirrored(database_url: str, tmp_path: Path) -> Iterator[Browser]:
    """Give a browser of a gateway with two tables, whose mirror is in `tmp_path`."""
    with own_gateway(database_url, mirror_target=str(tmp_path)) as client:
        for table in ("sales.orders", "sales.new"):
            client.register(table, {"id": "int64", "note": "string"}, ["id"]).raise_for_status()
        with signed_in(client.address) as browser:
            yield browser


def test_rows_are_shown_at_any_version_and_no_value_is_markup(mirrored: Browser, tmp_path: Path) -> None:
    path = str(tmp_path / "sales" / "orders")
    write_deltalake(path, pa.table({"id": [7], "note": [HOSTILE]}), mode="append")
    write_deltalake(path, pa.table({"id": [*range(100)], "note": [None] * 100}), mode="append")
    page = mirrored.page(ROWS)
    assert "50 rows of version 1, in no particular order; it has more." in page
    assert page.count('<i class="muted">NULL</i>') + page.count("&lt;script&gt;alert(1)") == 50
    page = mirrored.page(ROWS, version="0")
    assert "1 row of version 0, in no particular order." in page
    assert "<bdi>7</bdi>" in page
    assert "<bdi>&lt;script&gt;" in page
    answer = mirrored.get(ROWS, params={"version": "9"})
    assert (answer.status_code, "unknown_version: sales.orders has no version 9" in answer.text) == (404, True)
    check_markup(answer.text)
    answer = mirrored.get("/console/tables/sales.new/rows")
    assert (answer.status_code, "not_mirrored: " in answer.text) == (404, True)


def test_a_gateway_without_a_mirror_says_how_to_see_rows(sign_in: SignIn, gateway: Gateway) -> None:
    gateway.register("sales.orders", {"id": "int64"}, ["id"]).raise_for_status()
    page = sign_in("read").page(ROWS)
    assert "MIRRORGATE_MIRROR_TARGET" in page
    assert sign_in("read", tables=["hr.*"]).get(ROWS).status_code == 404
    assert sign_in("ingest").get(ROWS).status_code == 403
