"""Odd files and damaged markers in the landing zone."""

import errno
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber, TableState
from app.landing.local_zone import LocalZone, open_regular
from app.landing.zone import PathKind
from app.staging.tables.operations import release, request_repair
from spark_jobs.drain_cycle import DrainCycle
from tests.drain.conftest import NewDrain
from tests.support.gateway_parts import current, landed_keys, registered, stage_keys, state_reason
from tests.support.postgres import sql
from tests.support.samples.odd_files import ODD_FILES
from tests.support.samples.schemas import ID
from tests.support.small_drain import publish_each, publish_pending

LAST = file_name(FileNumber(2))


@pytest.fixture
def marker(landing_zone: Path) -> Path:
    return landing_zone / "t" / "_gateway.json"


@pytest.fixture
def cycle(engine: sa.Engine, new_drain: NewDrain) -> DrainCycle:
    """Give a drain that has published [1] and [2], and will publish [3]."""
    registered(engine, "t", ID)
    cycle = new_drain()
    publish_each(cycle, "t", 1, 2)
    stage_keys(engine, current(engine, "t"), [3])
    return cycle


def ask_for_a_new_marker(engine: sa.Engine) -> None:
    table = current(engine, "t")
    sql.call(engine, release, table.name, table.generation, "operator", "damaged by hand", rewrite_marker=True)


def ask_for_a_repair(engine: sa.Engine, number: int) -> None:
    table = current(engine, "t")
    sql.call(engine, request_repair, table.name, table.generation, FileNumber(number), "operator")


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "not JSON": (lambda marker: marker.write_text("broken"), "is damaged: it cannot be read"),
    "names nobody": (lambda marker: marker.write_text("{}"), "is damaged: it cannot be read"),
    "gone": (lambda marker: marker.unlink(), "has no _gateway.json"),
    "a FIFO": (lambda marker: (marker.unlink(), os.mkfifo(marker)), "is not a file"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("consumed", [False, True], ids=["visible", "consumed"])
def test_a_damaged_marker_is_said_to_be_damaged_and_written_again_where_the_files_prove_it(
    engine: sa.Engine, landing_zone: Path, marker: Path, cycle: DrainCycle, damage: str, consumed: bool
) -> None:
    whole = marker.read_bytes()
    act, told = DAMAGES[damage]
    act(marker)
    publish_pending(cycle)
    assert state_reason(engine, "t").startswith("landing_folder_lost: ")
    assert told in state_reason(engine, "t")
    if consumed:
        processed = landing_zone / "t" / "_ProcessedFiles"
        processed.mkdir()
        (landing_zone / "t" / LAST).rename(processed / LAST)
    ask_for_a_new_marker(engine)
    publish_pending(cycle)
    assert current(engine, "t").state is TableState.ACTIVE
    assert json.loads(marker.read_bytes()) == json.loads(whole)
    assert (landing_zone / "t" / file_name(FileNumber(3))).exists()
    assert not sql.value(engine, "SELECT rewrite_marker FROM mirrorgate.tables")


@pytest.mark.parametrize("differs", ["changed", "shorter", "gone"])
def test_no_marker_is_written_where_the_files_are_not_the_ledgers(
    engine: sa.Engine, landing_zone: Path, marker: Path, cycle: DrainCycle, differs: str
) -> None:
    marker.write_text("broken")
    publish_pending(cycle)
    last = landing_zone / "t" / LAST
    content = last.read_bytes()
    if differs == "gone":
        last.unlink()
    else:
        last.write_bytes(content[:-1] if differs == "shorter" else content[:-1] + bytes([content[-1] ^ 1]))
    ask_for_a_new_marker(engine)
    publish_pending(cycle)
    assert current(engine, "t").state is TableState.QUARANTINED
    assert "was not written again" in state_reason(engine, "t")
    assert marker.read_text() == "broken"
    assert not sql.value(engine, "SELECT rewrite_marker FROM mirrorgate.tables")


@pytest.mark.parametrize("damage", ["changed", "gone"])
@pytest.mark.parametrize("number", [1, 2], ids=["older", "last"])
def test_a_damaged_file_whose_repair_is_asked_for_does_not_keep_the_marker_damaged(
    engine: sa.Engine, landing_zone: Path, marker: Path, cycle: DrainCycle, damage: str, number: int
) -> None:
    whole = marker.read_bytes()
    marker.write_text("broken")
    file = landing_zone / "t" / file_name(FileNumber(number))
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(b"broken")
    publish_pending(cycle)
    ask_for_a_repair(engine, number)
    ask_for_a_new_marker(engine)
    publish_pending(cycle)
    assert current(engine, "t").state is TableState.ACTIVE
    assert json.loads(marker.read_bytes()) == json.loads(whole)
    assert landed_keys(landing_zone, "t") == [[1], [2], [3]]


def test_no_marker_is_written_where_every_file_waits_for_its_repair(
    engine: sa.Engine, landing_zone: Path, marker: Path, cycle: DrainCycle
) -> None:
    marker.write_text("broken")
    for number in (1, 2):
        (landing_zone / "t" / file_name(FileNumber(number))).write_bytes(b"another gateway's")
        ask_for_a_repair(engine, number)
    publish_pending(cycle)
    ask_for_a_new_marker(engine)
    publish_pending(cycle)
    assert "none proves the owner" in state_reason(engine, "t")
    assert marker.read_text() == "broken"
    assert (landing_zone / "t" / LAST).read_bytes() == b"another gateway's"


def test_a_marker_of_somebody_else_is_never_replaced_and_the_reason_names_whose_it_is(
    engine: sa.Engine, landing_zone: Path, marker: Path, cycle: DrainCycle
) -> None:
    other = json.loads(marker.read_bytes()) | {"generation": 7}
    marker.write_text(json.dumps(other))
    for _ in range(2):
        publish_pending(cycle)
        assert "belongs to generation 7 of table t" in state_reason(engine, "t")
        ask_for_a_new_marker(engine)
    publish_pending(cycle)
    assert json.loads(marker.read_bytes()) == other
    assert landed_keys(landing_zone, "t") == [[1], [2]]


DEADLINE = 20.0

each_odd_file = pytest.mark.parametrize("odd", ODD_FILES)


def publish_before_the_deadline(cycle: object) -> None:
    """Publish in a thread, so that a blocked open fails the test instead of hanging it."""
    thread = threading.Thread(target=publish_pending, args=(cycle,), daemon=True)
    thread.start()
    thread.join(DEADLINE)
    assert not thread.is_alive(), "the drain hangs"


@each_odd_file
def test_an_odd_file_under_the_next_number_quarantines_its_table_alone_and_at_once(
    engine: sa.Engine, landing_zone: Path, new_drain: NewDrain, odd: str
) -> None:
    for name in ("t", "healthy"):
        stage_keys(engine, registered(engine, name, ID), [1])
    cycle = new_drain()
    publish_pending(cycle)
    ODD_FILES[odd](landing_zone / "t" / file_name(FileNumber(2)))
    for name in ("t", "healthy"):
        stage_keys(engine, current(engine, name), [2])
    publish_before_the_deadline(cycle)
    assert current(engine, "t").state is TableState.QUARANTINED
    assert landed_keys(landing_zone, "healthy") == [[1], [2]]


@each_odd_file
@pytest.mark.parametrize("name", ["_gateway.json", "other"])
def test_an_odd_file_elsewhere_in_the_folder_quarantines_the_table_when_it_is_taken_over(
    engine: sa.Engine, landing_zone: Path, new_drain: NewDrain, odd: str, name: str
) -> None:
    stage_keys(engine, registered(engine, "t", ID), [1])
    publish_pending(new_drain())
    sql.run(engine, "DELETE FROM mirrorgate.workers")
    (landing_zone / "t" / name).unlink(missing_ok=True)
    ODD_FILES[odd](landing_zone / "t" / name)
    stage_keys(engine, current(engine, "t"), [2])
    publish_before_the_deadline(new_drain())
    assert current(engine, "t").state is TableState.QUARANTINED
    assert landed_keys(landing_zone, "t") == [[1]]


@each_odd_file
def test_an_odd_file_in_the_place_of_the_table_folder_quarantines_the_table(
    engine: sa.Engine, landing_zone: Path, new_drain: NewDrain, odd: str
) -> None:
    stage_keys(engine, registered(engine, "t", ID), [1])
    landing_zone.mkdir()
    ODD_FILES[odd](landing_zone / "t")
    publish_before_the_deadline(new_drain())
    assert current(engine, "t").state is TableState.QUARANTINED


@each_odd_file
def test_an_odd_file_is_seen_as_such_never_opened_and_revoked_like_a_plain_file(tmp_path: Path, odd: str) -> None:
    zone = LocalZone(tmp_path / "zone")
    zone.create_folder("scratch")
    path = tmp_path / "zone" / "scratch" / "1"
    ODD_FILES[odd](path)
    assert zone.kind("scratch/1") is PathKind.SPECIAL
    assert zone.kinds("scratch") == {"1": PathKind.SPECIAL}
    with pytest.raises(OSError) as rejected, open_regular(path):
        pass
    assert rejected.value.errno in {errno.EINVAL, errno.ENXIO, errno.ELOOP}
    zone.revoke_folder("scratch/1")
    assert zone.kind("scratch/1") in {PathKind.FILE, PathKind.SPECIAL}
    assert not path.is_symlink()
