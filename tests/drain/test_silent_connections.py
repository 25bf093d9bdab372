"""A drain whose connections to Postgres become silent continues with new ones."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.drain.conftest import NewDrain
from tests.support.gateway_parts import landed_keys, registered, stage_keys
from tests.support.postgres.swallowing_proxy import swallowing_proxy
from tests.support.samples.schemas import ID
from tests.support.small_drain import publish_pending


def test_a_drain_publishes_on_after_its_connections_fell_silent(
    engine: sa.Engine, database_url: str, landing_zone: Path, new_drain: NewDrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.staging.connection.database._PING_SECONDS", 0.3)
    table = registered(engine, "t", ID)
    with swallowing_proxy(database_url) as proxy:
        cycle = new_drain(url=proxy.url)
        stage_keys(engine, table, [1])
        publish_pending(cycle)
        proxy.swallow()
        stage_keys(engine, table, [2])
        publish_pending(cycle)
        cycle.context.engine.dispose()
    assert landed_keys(landing_zone, "t") == [[1], [2]]
