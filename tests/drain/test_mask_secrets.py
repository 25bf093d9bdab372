"""Two API processes with different secrets: no table mixes hashes, and other tables are served by both."""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from app.checks.preflight import examine
from app.domain.access.mask_secret import MaskSecret
from tests.api.calls import ADMIN_KEY, Gateway, own_gateway, problem
from tests.drain.conftest import NewDrain
from tests.support.gateway_parts import current
from tests.support.hashes import hashed
from tests.support.http.server import api_process
from tests.support.postgres import sql
from tests.support.small_drain import publish_pending
from tests.support.waiting import wait_until

FORMER, PRESENT = "the former secret of hashed columns", "the present secret of hashed columns"
PRESENT_SECRET = MaskSecret(PRESENT.encode())
HASHED: dict[str, Any] = {"masks": {"mail": {"method": "hash"}}}
COLUMNS = {"id": "int64", "mail": "string"}
WRONG = "1 table has columns that are hashed under another MIRRORGATE_MASK_SECRET than that of this process"
ROW = {"id": 1, "mail": "ada@example.com"}


@pytest.fixture
def gateways(database_url: str) -> Iterator[tuple[Gateway, Gateway]]:
    """Give an API with the former secret, in this process, and one with the present secret in its own."""
    with (
        own_gateway(database_url, mask_secret=FORMER) as of_former,
        api_process(database_url, ADMIN_KEY, MASK_SECRET=PRESENT) as (_, present),
        Gateway.at(present, ADMIN_KEY) as of_present,
    ):
        yield of_former, of_present


def found_by_doctor(database_url: str, secret: MaskSecret | None = PRESENT_SECRET, **how: bool) -> dict[str, str]:
    findings = examine(None, database_url, {}, mask_secret=secret, **how)
    return {finding.check: finding.detail for finding in findings if finding.check.startswith("mask_")}


def wait_for_masks(gateways: tuple[Gateway, Gateway], *states: tuple[int, str]) -> None:
    """Wait until `/readyz`, which may be a second old, says this of the former and of the present secret."""

    def found() -> list[tuple[int, str]]:
        answers = [gateway.get("/readyz") for gateway in gateways]
        return [(answer.status_code, answer.json()["parts"]["masks"]) for answer in answers]

    wait_until(lambda: found() == [*states], within=30, what="/readyz shows the state of the secrets")


@pytest.mark.slow
def test_tables_are_hashed_under_one_secret_until_they_are_dropped(
    gateways: tuple[Gateway, Gateway], engine: sa.Engine, database_url: str, new_drain: NewDrain
) -> None:
    former, present = gateways
    wait_for_masks(gateways, (200, "ok"), (200, "ok"))
    former.register("t", COLUMNS, ["id"], **HASHED).raise_for_status()
    former.register("plain", COLUMNS, ["id"]).raise_for_status()

    for rejected in (
        present.rows("t", ROW),
        present.rows("t", ROW, dry_run="true"),
        present.register("u", COLUMNS, ["id"], **HASHED),
        *(
            present.post("/v1/tables/t/recreate", params={"generation": 1}, json=wanted)
            for wanted in ({"options": HASHED}, {"options": {"seed_file": False}}, {})
        ),
    ):
        details = problem(rejected, 503, "mask_secret_differs")
        assert "ada@" not in str(details)
        assert "secret of hashed" not in str(details)
    present.rows("plain", ROW).raise_for_status()
    former.rows("t", ROW).raise_for_status()
    wait_for_masks(gateways, (200, "ok"), (200, WRONG))
    assert found_by_doctor(database_url) == {"mask_secret": WRONG}
    assert "not set" not in found_by_doctor(database_url, None)["mask_secret"]
    assert "is not set" in found_by_doctor(database_url, None, is_api=True)["mask_secret"]
    former.register("t", COLUMNS, ["id"], **HASHED).raise_for_status()
    present.register("t", COLUMNS, ["id"], **HASHED).raise_for_status()  # a repeat hashes nothing

    former.delete("/v1/tables/t", params={"generation": 1}).raise_for_status()
    publish_pending(new_drain())
    present.register("t", COLUMNS, ["id"], **HASHED).raise_for_status()
    present.rows("t", ROW).raise_for_status()
    problem(former.rows("t", ROW), 503, "mask_secret_differs")
    wait_for_masks(gateways, (200, WRONG), (200, "ok"))
    with own_gateway(database_url, mask_secret=FORMER) as late:
        wait_for_masks((late, present), (503, WRONG), (200, "ok"))
    payload = "SELECT payload FROM mirrorgate.block_payloads WHERE table_id = :table_id"
    [(stored,)] = sql.rows(engine, payload, table_id=current(engine, "t").table_id)
    scope = f"table:{current(engine, 't').table_id}"
    assert hashed(PRESENT.encode(), scope, "ada@example.com").encode() in bytes(stored)
