"""Programs of two versions: a table that only the newer one can read is left to it, and stops no other table."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from app.domain.model.table_options import DEFAULT_OPTIONS
from app.staging.ledger.leases import claim_table
from tests.api.calls import Gateway, insert, own_gateway, problem
from tests.drain.conftest import NewDrain
from tests.support.gateway_parts import current
from tests.support.postgres import sql
from tests.support.small_drain import publish_pending

NEWER = {
    "an option": """UPDATE mirrorgate.tables SET options = options || '{"later": 1}' WHERE name = 'newer'""",
    "a value": """UPDATE mirrorgate.tables SET options = options || '{"reload": "later"}' WHERE name = 'newer'""",
    "a type": """UPDATE mirrorgate.schema_versions SET columns = replace(columns::text, 'string', 'later')::jsonb
        WHERE table_id = (SELECT table_id FROM mirrorgate.tables WHERE name = 'newer')""",
}


@pytest.fixture
def gateway(database_url: str) -> Iterator[Gateway]:
    with own_gateway(database_url) as client:
        for name in ("known", "newer"):
            client.register(name, {"id": "int64", "note": "string"}, ["id"]).raise_for_status()
        yield client


@pytest.mark.parametrize("makes_newer", NEWER.values(), ids=NEWER)
def test_a_table_of_a_newer_version_stops_no_other_table_and_is_left_to_newer_programs(
    engine: sa.Engine, gateway: Gateway, new_drain: NewDrain, makes_newer: str
) -> None:
    gateway.rows("newer", {"id": 1, "note": "x"}).raise_for_status()
    drain = new_drain()
    publish_pending(drain)
    newer, known = (current(engine, name).table_id for name in ("newer", "known"))
    gateway.rows("newer", {"id": 2, "note": "x"}).raise_for_status()
    sql.run(engine, makes_newer.replace(": ", "\\: "))
    sql.run(engine, "UPDATE mirrorgate.tables SET revision = revision + 1 WHERE name = 'newer'")

    for answer in (
        gateway.rows("newer", {"id": 3, "note": "x"}),
        gateway.arcion(insert("newer", id=3, note="x")),
        gateway.get("/v1/tables/newer"),
    ):
        assert "newer has what this version does not know" in problem(answer, 503, "table_too_new")["detail"]
        assert int(answer.headers["retry-after"]) > 0
    gateway.rows("known", {"id": 1, "note": "x"}).raise_for_status()
    assert [table["table"] for table in gateway.get("/v1/tables").raise_for_status().json()["tables"]] == ["known"]
    assert 'table="known"' in gateway.get("/metrics").raise_for_status().text

    assert drain.leased.epoch(newer) is not None
    publish_pending(drain)
    assert (
        sql.value(engine, "SELECT published_through FROM mirrorgate.table_counters WHERE table_id = :t", t=known) == 1
    )
    assert drain.leased.epoch(newer) is None
    other = new_drain().context.worker_id
    with engine.begin() as connection:
        assert claim_table(connection, newer, other, held=None) is not None


def test_a_table_stores_only_what_differs_from_the_defaults(engine: sa.Engine, gateway: Gateway) -> None:
    gateway.put("/v1/tables/known", json={"options": {"dead_letters": "accept"}}).raise_for_status()
    stored = sql.value(engine, "SELECT options FROM mirrorgate.tables WHERE name = 'known'")
    assert stored == {"dead_letters": "accept", "seed_file": True}
    assert DEFAULT_OPTIONS.to_stored() == {}
