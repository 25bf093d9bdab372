"""Fabric's status is stored per table and generation, and read by one drain at a time."""

import sqlalchemy as sa

from app.domain.fabric import FabricFault, TableMirroring
from app.domain.model.table import Generation, Table, TableId
from app.staging.ledger.reports import (
    FabricStatus,
    claim_reading,
    fabric_statuses,
    note_folder_gone,
    record_fabric_status,
)
from tests.support.gateway_parts import dropping, registered
from tests.support.postgres import sql
from tests.support.samples.schemas import schema_of

ID = schema_of({"id": "int64"})


def claim(engine: sa.Engine, seconds: float) -> bool:
    return sql.call(engine, claim_reading, seconds)


def record(engine: sa.Engine, found: dict[tuple[TableId, Generation], TableMirroring]) -> None:
    sql.call(engine, record_fabric_status, found)


def states(engine: sa.Engine, *tables: Table) -> dict[TableId, FabricStatus]:
    return sql.call(engine, fabric_statuses, [table.table_id for table in tables])


def test_one_turn_within_the_seconds_for_all_drains(engine: sa.Engine) -> None:
    assert [claim(engine, 60) for _ in range(3)] == [True, False, False]
    sql.run(engine, "UPDATE mirrorgate.fabric_readings SET read_at = read_at - interval '61 seconds'")
    assert [claim(engine, 60) for _ in range(2)] == [True, False]


def test_the_last_view_replaces_the_one_before(engine: sa.Engine) -> None:
    one, two = registered(engine, "one", ID), registered(engine, "two", ID)
    key_one, key_two = (one.table_id, one.generation), (two.table_id, two.generation)
    record(engine, {key_one: TableMirroring("", "one", "Replicating", 5), key_two: TableMirroring("", "two")})
    record(engine, {key_one: TableMirroring("", "one", "Failed", 7, 70, error=FabricFault("x", "y", "unknown"))})
    assert states(engine, two) == {}
    state = states(engine, one)[one.table_id]
    assert (state.state, state.error, state.processed_rows, state.processed_bytes) == ("Failed", "x: y", 7, 70)
    record(engine, {})
    assert states(engine, one, two) == {}


def test_what_was_said_of_another_generation_is_not_shown(engine: sa.Engine) -> None:
    table = registered(engine, "t", ID)
    record(engine, {(table.table_id, Generation(2)): TableMirroring("", "t", processed_rows=5)})
    assert states(engine, table) == {}


def test_the_time_since_a_folder_is_gone_is_counted_from_the_first_look(engine: sa.Engine) -> None:
    table_id = registered(engine, "t", ID).table_id
    dropping(engine, "t")
    assert sql.call(engine, note_folder_gone, table_id) < 30
    sql.run(engine, "UPDATE mirrorgate.tables SET folder_gone_at = folder_gone_at - interval '90 seconds'")
    assert 90 <= sql.call(engine, note_folder_gone, table_id) < 120
