"""Landing zones that are lost, moved or exchanged under a running drain."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.checks.landing_zone import claim_landing_zone, move_landing_zone
from app.domain.fabric import DatabaseState, DatabaseStatus, TableMirroring
from app.domain.model.table import TableState
from app.landing.open_zone import ZoneAddress
from app.landing.zone_owner import ZONE_MARKER
from app.staging.ledger.leases import present_zone
from app.staging.ledger.reports import (
    claim_poll,
    fabric_database,
    fabric_statuses,
    record_fabric_status,
    store_answer,
)
from mirrorgate.errors import Code, InvariantBroken, Misconfigured, TemporarilyUnavailable
from spark_jobs.build_files import FileBuilder
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.steps import publishing
from tests.drain.conftest import NewDrain
from tests.support.gateway_parts import current, dropping, landed_keys, registered, stage_keys
from tests.support.postgres import sql
from tests.support.samples.schemas import ID
from tests.support.small_drain import draining, publish_pending
from tests.support.waiting import wait_until

TABLES = ("held", "other")


@pytest.fixture
def running(engine: sa.Engine, new_drain: NewDrain) -> DrainCycle:
    """Yield a drain that owns `held`; both tables have pending batches."""
    cycle = new_drain()
    stage_keys(engine, registered(engine, "held", ID), [1])
    publish_pending(cycle)
    registered(engine, "other", ID)
    for name in TABLES:
        stage_keys(engine, current(engine, name), [2])
    return cycle


def unmount(landing_zone: Path, *, empty: bool = True) -> None:
    landing_zone.rename(landing_zone.with_name("away"))
    if empty:
        landing_zone.mkdir()


def mount(landing_zone: Path) -> None:
    """Over the empty folder, which must still be empty, or in the place of nothing."""
    landing_zone.with_name("away").rename(landing_zone)


def ledger(engine: sa.Engine) -> list[tuple[object, ...]]:
    columns = "t.name, t.state, t.state_reason, c.recorded_file_number, l.epoch"
    return sql.rows(
        engine,
        f"SELECT {columns} FROM mirrorgate.tables t JOIN mirrorgate.table_counters c USING (table_id)"
        " LEFT JOIN mirrorgate.table_leases l USING (table_id) ORDER BY t.name",
    )


def expect_away(act: Callable[[], object]) -> None:
    with pytest.raises(TemporarilyUnavailable, match=Code.LANDING_ZONE_AWAY):
        act()


@pytest.mark.parametrize("empty", [True, False], ids=["an empty folder in its place", "nothing in its place"])
def test_without_its_zone_a_drain_changes_nothing_and_goes_on_when_it_is_back(
    engine: sa.Engine, landing_zone: Path, running: DrainCycle, empty: bool
) -> None:
    before = ledger(engine)
    unmount(landing_zone, empty=empty)
    for _ in range(3):
        expect_away(lambda: publish_pending(running))
        assert running.prepare(current(engine, "other").table_id) is None
    assert ledger(engine) == before
    assert not landing_zone.exists() or list(landing_zone.iterdir()) == []
    mount(landing_zone)
    publish_pending(running)
    assert landed_keys(landing_zone, "held") == [[1], [2]]
    assert landed_keys(landing_zone, "other") == [[2]]


def test_a_drain_whose_zone_is_away_says_so_until_it_is_back(landing_zone: Path, running: DrainCycle) -> None:
    unmount(landing_zone)
    with draining(running, poll_seconds=0.02):
        wait_until(lambda: running.waits_for is Code.LANDING_ZONE_AWAY, within=60, what="the drain says what it lacks")
        landing_zone.rmdir()
        mount(landing_zone)
        wait_until(lambda: running.waits_for is None, within=60, what="the drain publishes again")


def test_a_zone_of_another_gateway_in_the_place_of_ours_is_away_too(
    engine: sa.Engine, landing_zone: Path, running: DrainCycle
) -> None:
    before = ledger(engine)
    unmount(landing_zone)
    (landing_zone / ZONE_MARKER).parent.mkdir()
    (landing_zone / ZONE_MARKER).write_text('{"installation_id": "00000000-0000-0000-0000-000000000002"}')
    expect_away(lambda: publish_pending(running))
    assert ledger(engine) == before


@pytest.mark.parametrize("step", ["build", "prepare_folder", "make_visible"])
def test_a_zone_that_goes_between_two_steps_quarantines_no_table(
    engine: sa.Engine, landing_zone: Path, running: DrainCycle, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = [running.prepare(current(engine, name).table_id) for name in TABLES]
    owner = FileBuilder if step == "build" else publishing
    real = getattr(owner, step)

    def late(*given: object, **named: object) -> object:
        if not landing_zone.with_name("away").exists():
            unmount(landing_zone)
        return real(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, late)
        assert running.build_and_publish([entry for entry in claimed if entry is not None]) == set()
    assert {state for _, state, *_ in ledger(engine)} == {TableState.ACTIVE}
    assert list(landing_zone.iterdir()) == []
    mount(landing_zone)
    publish_pending(running)
    assert landed_keys(landing_zone, "held") == [[1], [2]]
    assert landed_keys(landing_zone, "other") == [[2]]


def test_what_was_seen_while_the_zone_was_away_stops_no_table(
    engine: sa.Engine, landing_zone: Path, running: DrainCycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unmounted(*_: object) -> bool:
        unmount(landing_zone)
        raise InvariantBroken(Code.LANDING_FOLDER_LOST, "the folder is gone")

    monkeypatch.setattr("spark_jobs.steps.take_over.recover_visible_file", unmounted)
    assert running.prepare(current(engine, "other").table_id) is None
    assert current(engine, "other").state is TableState.ACTIVE


def test_a_folder_that_is_gone_with_the_whole_zone_ends_no_drop(
    engine: sa.Engine, landing_zone: Path, running: DrainCycle
) -> None:
    table = dropping(engine, "held")
    unmount(landing_zone)
    assert running.prepare(table.table_id) is None
    assert current(engine, "held").state is TableState.DROPPING
    mount(landing_zone)
    assert running.prepare(table.table_id) is None
    assert not (landing_zone / "held").exists()
    assert sql.value(engine, "SELECT state FROM mirrorgate.tables WHERE name = 'held'") == "dropped"


@pytest.fixture
def mounted(tmp_path: Path, landing_zone: Path) -> Iterator[Callable[[], None]]:
    """Mount the landing zone; the call mounts it again. Skips where tests must not mount."""
    disk = tmp_path / "disk"
    for folder in (disk, landing_zone):
        folder.mkdir()

    def mount_again() -> None:
        subprocess.run(["mount", "--bind", disk, landing_zone], check=True, capture_output=True)

    try:
        mount_again()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this account may not mount")
    yield mount_again
    subprocess.run(["umount", "--lazy", landing_zone], check=False, capture_output=True)


def test_a_real_mount_that_is_lost_under_a_running_drain_comes_back_whole(
    engine: sa.Engine, landing_zone: Path, mounted: Callable[[], None], running: DrainCycle
) -> None:
    before = ledger(engine)
    subprocess.run(["umount", "--lazy", landing_zone], check=True)
    for _ in range(2):
        expect_away(lambda: publish_pending(running))
    assert list(landing_zone.iterdir()) == []
    assert ledger(engine) == before
    mounted()
    publish_pending(running)
    assert landed_keys(landing_zone, "held") == [[1], [2]]
    assert landed_keys(landing_zone, "other") == [[2]]


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
