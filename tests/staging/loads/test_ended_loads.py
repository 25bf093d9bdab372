"""How loads end: each counted once, unless a drain ended it, and no table loses its row images before."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from prometheus_client import REGISTRY

from app.domain.loads import LoadId, LoadState
from app.domain.model.table_options import RowImages, TableOptions
from app.staging.loads import abort_load, begin_load, end_stale_loads
from app.staging.tables.registration import register_table
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import LoadMode
from tests.support.gateway_parts import registered
from tests.support.postgres import sql
from tests.support.rejections import rejected as rejection
from tests.support.samples.images import KEEP
from tests.support.samples.schemas import schema_of
from tests.support.waiting import wait_until

IDS = [LoadId(f"00000000-0000-0000-0000-00000000000{at}") for at in range(2)]


def ended_by_requests() -> float:
    states = (REGISTRY.get_sample_value("mirrorgate_ended_loads_total", {"state": state}) for state in LoadState)
    return sum(count or 0 for count in states)


def test_a_load_that_a_drain_ends_is_not_counted_as_ended_by_a_request(engine: sa.Engine) -> None:
    table = registered(engine, "t", schema_of({"id": "int32"}, ["id"]), KEEP)
    before = ended_by_requests()
    sql.call(engine, begin_load, table.name, IDS[0], LoadMode.FULL, 60.0, "sender")
    sql.run(engine, "UPDATE mirrorgate.loads SET expires_at = clock_timestamp()")
    assert sql.call(engine, end_stale_loads) == 1
    assert ended_by_requests() == before
    with engine.begin() as connection:
        begin_load(connection, table.name, IDS[1], LoadMode.FULL, 60.0, "sender")
        for _ in range(2):
            assert abort_load(connection, table.name, IDS[1], "sender").state is LoadState.ABORTED
    assert ended_by_requests() == before + 1


def test_a_table_keeps_its_row_images_until_its_load_has_ended(engine: sa.Engine) -> None:
    table = registered(engine, "t", schema_of({"id": "int32"}, ["id"]), KEEP)
    for at, end in enumerate(("abort", "expiry")):
        sql.call(engine, begin_load, table.name, IDS[at], LoadMode.FULL, 60.0, "sender")
        with pytest.raises(RejectedInput) as rejected, engine.begin() as connection:
            register_table(connection, table.name, None, TableOptions())
        assert (rejected.value.code, IDS[at] in str(rejected.value)) == (Code.LOAD_OPEN, True)
        with engine.begin() as connection:
            if end == "abort":
                abort_load(connection, table.name, IDS[at], "sender")
            else:
                connection.execute(sa.text("UPDATE mirrorgate.loads SET expires_at = clock_timestamp()"))
        for kept in (RowImages.OFF, RowImages.ON):
            sql.call(engine, register_table, table.name, None, TableOptions(row_images=kept))


def test_an_id_that_two_tables_ask_for_at_the_same_time_is_the_load_of_the_first(engine: sa.Engine) -> None:
    tables = [registered(engine, name, schema_of({"id": "int32"}, ["id"]), KEEP) for name in "tu"]
    asked = [(table.name, IDS[0], LoadMode.APPEND, 60.0, "sender") for table in tables]
    with ThreadPoolExecutor(1) as thread:
        with engine.begin() as connection:
            begin_load(connection, *asked[0])
            other = thread.submit(sql.call, engine, begin_load, *asked[1])
            wait_until(lambda: sql.lock_waits(engine) == 1, within=30, what="the other table's load waits")
        with rejection(Code.LOAD_ENDED):
            other.result(timeout=30)
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.table_counters WHERE open_load IS NOT NULL") == 1
