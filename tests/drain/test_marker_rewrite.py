"""A damaged or lost `_gateway.json` is rewritten only in our own folder, never in another gateway's."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber, TableState
from app.staging.tables.operations import release, request_repair
from spark_jobs.drain_cycle import DrainCycle
from tests.drain.conftest import NewDrain
from tests.support.gateway_parts import current, landed_keys, registered, stage_keys, state_reason
from tests.support.postgres import sql
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
    with engine.begin() as connection:
        release(connection, table.name, table.generation, "operator", "damaged by hand", rewrite_marker=True)


def ask_for_a_repair(engine: sa.Engine, number: int) -> None:
    table = current(engine, "t")
    with engine.begin() as connection:
        request_repair(connection, table.name, table.generation, FileNumber(number), "operator")


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
