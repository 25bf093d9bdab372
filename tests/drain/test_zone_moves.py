"""A database remembers its landing zone; another one is rejected until an operator confirms the move."""

import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.checks.landing_zone import claim_landing_zone, move_landing_zone
from app.domain.fabric import DatabaseState, DatabaseStatus, TableMirroring
from app.domain.model.table import TableState
from app.landing.open_zone import ZoneAddress
from app.staging.ledger.leases import present_zone
from app.staging.ledger.reports import (
    claim_poll,
    fabric_database,
    fabric_statuses,
    record_fabric_status,
    store_answer,
)
from mirrorgate.errors import Code, Misconfigured
from tests.drain.conftest import NewDrain
from tests.support.gateway_parts import current, landed_keys, registered, stage_keys
from tests.support.postgres import sql
from tests.support.samples.schemas import ID
from tests.support.small_drain import publish_pending


def test_a_drain_with_another_zone_is_rejected_and_stops_no_table(
    engine: sa.Engine, landing_zone: Path, tmp_path: Path, new_drain: NewDrain
) -> None:
    stage_keys(engine, registered(engine, "t", ID), [1])
    publish_pending(new_drain())
    stage_keys(engine, current(engine, "t"), [2])
    with pytest.raises(Misconfigured, match=Code.LANDING_ZONE_CHANGED) as rejected:
        new_drain(zone=tmp_path / "other")
    assert str(landing_zone) in rejected.value.detail
    assert "mirrorgate landing-zone move" in rejected.value.remedy
    assert not (tmp_path / "other").exists()
    assert current(engine, "t").state is TableState.ACTIVE


def test_the_same_zone_under_another_address_is_taken_and_remembered(engine: sa.Engine, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    claimed = claim_landing_zone(engine, ZoneAddress(str(one)))
    one.rename(two)
    assert claim_landing_zone(engine, ZoneAddress(str(two))).zone_id == claimed.zone_id
    known = present_zone(engine)
    assert known is not None
    assert (known.zone_id, known.location) == (claimed.zone_id, str(two))


@pytest.mark.parametrize("is_copy", [False, True], ids=["a new zone", "a copy"])
def test_after_a_move_a_drain_on_the_former_zone_publishes_nothing_more(
    engine: sa.Engine, landing_zone: Path, tmp_path: Path, new_drain: NewDrain, is_copy: bool
) -> None:
    former = new_drain()
    if is_copy:
        shutil.copytree(landing_zone, tmp_path / "new")
    for name in ("t", "u"):
        stage_keys(engine, registered(engine, name, ID), [1])
    claimed = former.prepare(current(engine, "t").table_id)
    assert claimed is not None
    address = ZoneAddress(str(tmp_path / "new"))
    before, now = move_landing_zone(engine, address)
    assert (before, now.location) == (former.context.claimed_zone.known, address.location)
    assert former.build_and_publish([claimed]) == set()
    with pytest.raises(Misconfigured, match=Code.LANDING_ZONE_CHANGED) as rejected:  # a running drain says it waits
        publish_pending(former)
    assert str(address.location) in rejected.value.detail
    assert landed_keys(landing_zone, "t") == landed_keys(landing_zone, "u") == []
    sql.run(engine, "DELETE FROM mirrorgate.workers")
    publish_pending(new_drain(zone=address))
    assert landed_keys(tmp_path / "new", "t") == landed_keys(tmp_path / "new", "u") == [[1]]
    assert move_landing_zone(engine, address) == (now, now)


def test_a_move_forgets_what_fabric_said_of_the_former_zone(
    engine: sa.Engine, landing_zone: Path, tmp_path: Path
) -> None:
    table = registered(engine, "t", ID)
    claim_landing_zone(engine, ZoneAddress(str(landing_zone)))
    with engine.begin() as connection:
        claim_poll(connection, 60.0)
        store_answer(connection, DatabaseStatus(DatabaseState.RUNNING, "Running"), has_tables=True)
        mirrored = TableMirroring("", "t", "Replicating", 7, 700)
        record_fabric_status(connection, {(table.table_id, table.generation): mirrored})

    def is_known() -> tuple[bool, bool]:
        with engine.begin() as connection:
            return fabric_database(connection) is not None, bool(fabric_statuses(connection, [table.table_id]))

    move_landing_zone(engine, ZoneAddress(str(landing_zone)))
    assert is_known() == (True, True)
    move_landing_zone(engine, ZoneAddress(str(tmp_path / "new")))
    assert is_known() == (False, False)


def test_drains_that_start_together_on_the_known_zone_do_not_wait_for_each_other(
    engine: sa.Engine, landing_zone: Path
) -> None:
    claimed = claim_landing_zone(engine, ZoneAddress(str(landing_zone)))
    with sql.locked(engine, "SELECT FROM mirrorgate.installation FOR UPDATE"):
        assert claim_landing_zone(engine, ZoneAddress(str(landing_zone))) == claimed
