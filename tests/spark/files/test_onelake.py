"""The drain publishes into OneLake, and mirroring receives exactly what was staged."""

import json

import sqlalchemy as sa

from app.domain.model.table import DropAction, FileNumber, TableState
from app.staging.ledger.files import list_files
from mirrorgate_zone.emulator import Effect, Fault, OneLake, Trust
from tests.spark.conftest import NewWorker, die_at, drain
from tests.support.gateway_parts import current, dropping, registered, stage_keys
from tests.support.onelake.clients import onelake_address
from tests.support.onelake.fixtures import NewOneLake
from tests.support.onelake.mirror import PROCESSED, Mirror
from tests.support.postgres.ledger import end_lease
from tests.support.samples.schemas import ID


def keys(mirror: Mirror, folder: str) -> list[list[int]]:
    """Return the keys in each file that mirroring took in."""
    return [[row["id"] for row in rows] for rows in mirror.tables[folder].files]


def test_what_mirroring_takes_in_is_what_was_staged_in_order(
    engine: sa.Engine, new_worker: NewWorker, onelake: OneLake, trust: Trust
) -> None:
    mirror = Mirror(onelake)
    tables = {"t": registered(engine, "t", ID), "s.schema/orders": registered(engine, "s.orders", ID)}
    worker = new_worker(rows=3, zone=onelake_address(onelake, trust))
    for start in (0, 100):
        for table in tables.values():
            stage_keys(engine, table, [start + 1, start + 2], [start + 3], [start + 4, start + 5])
        drain(worker)
    mirror.check()
    for folder in tables:
        assert keys(mirror, folder) == [[1, 2, 3], [4, 5], [101, 102, 103], [104, 105]]
        assert len(onelake.names(f"{folder}/{PROCESSED}")) == 3
        assert all(row["__rowMarker__"] == 0 for row in mirror.tables[folder].rows)
    status = json.loads(onelake.tree.find(f"{onelake.item[0]}/Files/Monitoring/tables.json").content)
    assert [entry["processedRowCount"] for entry in status["tables"]] == [10, 10]


def test_lost_answers_and_ignored_conditions_neither_lose_nor_repeat_a_row(
    engine: sa.Engine, new_worker: NewWorker, new_onelake: NewOneLake, trust: Trust
) -> None:
    onelake = new_onelake(rename_condition="ignored", user_metadata="forgotten", rename_keeps_etag=False)
    onelake.faults.first_of_each = Fault(Effect.RESET_AFTER)
    onelake.faults.spared = frozenset({"head", "read", "create"})
    mirror = Mirror(onelake)
    table = registered(engine, "t", ID)
    stage_keys(engine, table, [1], [2, 3], [4])
    drain(new_worker(rows=2, zone=onelake_address(onelake, trust)))
    mirror.check()
    assert [row["id"] for row in mirror.tables["t"].rows] == [1, 2, 3, 4]
    assert {operation for operation, _ in onelake.faults.used} >= {"append", "flush", "rename"}


def test_a_file_that_mirroring_took_before_it_was_recorded_is_recorded_not_landed_again(
    engine: sa.Engine, new_worker: NewWorker, onelake: OneLake, trust: Trust
) -> None:
    mirror = Mirror(onelake)
    stage_keys(engine, registered(engine, "t", ID), [1], [2])
    first = new_worker(zone=onelake_address(onelake, trust))
    die_at("record_published", first, current(engine, "t").table_id)
    end_lease(engine, first.context.worker_id)
    stage_keys(engine, current(engine, "t"), [3])
    drain(new_worker(zone=onelake_address(onelake, trust)))
    mirror.check()
    assert keys(mirror, "t") == [[1, 2], [3]]


def test_a_table_that_is_recreated_begins_another_lifetime_in_the_mirror(
    engine: sa.Engine, new_worker: NewWorker, onelake: OneLake, trust: Trust
) -> None:
    mirror = Mirror(onelake)
    table = registered(engine, "t", ID)
    worker = new_worker(zone=onelake_address(onelake, trust))
    stage_keys(engine, table, [1], [2])
    drain(worker)
    onelake.faults.plan("delete", Fault(Effect.RESET_AFTER))
    dropping(engine, "t", DropAction.RECREATE)
    drain(worker)
    stage_keys(engine, current(engine, "t"), [7], [8])
    drain(worker)
    mirror.check()
    assert [[row["id"] for row in lifetime.rows] for lifetime in mirror.dropped] == [[1, 2]]
    assert keys(mirror, "t") == [[7, 8]]


def test_a_store_that_fails_for_a_while_only_delays(
    engine: sa.Engine, new_worker: NewWorker, onelake: OneLake, trust: Trust
) -> None:
    mirror = Mirror(onelake)
    table = registered(engine, "t", ID)
    stage_keys(engine, table, [1])
    worker = new_worker(zone=onelake_address(onelake, trust, retry_seconds=0.0))
    onelake.faults.plan("read", Fault(Effect.RESET_BEFORE), skip=2)  # the zone's own marker is read twice before
    onelake.faults.plan("rename", Fault(Effect.RESET_AFTER), skip=1)
    for _ in range(3):  # the first cannot read its file back; the second does not learn that its rename was done
        drain(worker)
    mirror.check()
    assert (keys(mirror, "t"), onelake.faults.left) == ([[1]], 0)
    assert current(engine, "t").state is TableState.ACTIVE
    with engine.begin() as connection:
        (file,) = list_files(connection, table.table_id, table.generation, after=FileNumber(0), limit=10)
    assert file.state == "published"
