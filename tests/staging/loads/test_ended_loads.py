"""The metric of ended load sessions counts each once, and none that a drain ended."""

import sqlalchemy as sa
from prometheus_client import REGISTRY

from app.domain.loads.load_mode import LoadMode
from app.domain.loads.load_session import LoadId, LoadState
from app.domain.model.table_options import RowImages, TableOptions
from app.staging.loads.sessions import abort_load, begin_load, end_stale_loads
from tests.support.gateway_parts import registered
from tests.support.postgres import sql
from tests.support.samples.schemas import schema_of

IDS = [LoadId(f"00000000-0000-0000-0000-00000000000{at}") for at in range(2)]


def ended_by_requests() -> float:
    states = (REGISTRY.get_sample_value("mirrorgate_ended_loads_total", {"state": state}) for state in LoadState)
    return sum(count or 0 for count in states)


def test_a_load_that_a_drain_ends_is_not_counted_as_ended_by_a_request(engine: sa.Engine) -> None:
    table = registered(engine, "t", schema_of({"id": "int32"}, ["id"]), TableOptions(row_images=RowImages.ON))
    before = ended_by_requests()
    with engine.begin() as connection:
        begin_load(connection, table.name, IDS[0], LoadMode.FULL, 60.0, "sender")
    sql.run(engine, "UPDATE mirrorgate.loads SET expires_at = clock_timestamp()")
    with engine.begin() as connection:
        assert end_stale_loads(connection) == 1
    assert ended_by_requests() == before
    with engine.begin() as connection:
        begin_load(connection, table.name, IDS[1], LoadMode.FULL, 60.0, "sender")
        for _ in range(2):
            assert abort_load(connection, table.name, IDS[1], "sender").state is LoadState.ABORTED
    assert ended_by_requests() == before + 1
