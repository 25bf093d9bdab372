"""`mirrorgate landing-zone`: the zone that the database remembers, and the move to another one."""

import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.checks.preflight import examine
from app.domain.preflight import Outcome
from app.landing.open_zone import ZoneAddress
from app.staging.ledger.leases import present_zone
from tests.drain.conftest import NewDrain
from tests.support.cli_output import Terminal
from tests.support.gateway_parts import registered, stage_keys
from tests.support.samples.schemas import ID
from tests.support.small_drain import publish_pending


@pytest.fixture
def terminal(
    database_url: str, landing_zone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Terminal:
    monkeypatch.setenv("MIRRORGATE_DATABASE_URL", database_url)
    monkeypatch.setenv("MIRRORGATE_LANDING_ZONE", str(landing_zone))
    monkeypatch.setattr("app.cli.direct.configure_logging", lambda *_, **__: None)
    return Terminal(capsys)


def test_the_move_names_both_zones_and_the_tables_that_have_no_folder_there(
    engine: sa.Engine, tmp_path: Path, new_drain: NewDrain, terminal: Terminal
) -> None:
    assert terminal.run("landing-zone", "show")[:2] == (0, "no drain has started yet\n")
    stage_keys(engine, registered(engine, "t", ID), [1])
    registered(engine, "empty", ID)
    publish_pending(new_drain())
    former = present_zone(engine)
    status, output, _ = terminal.run("landing-zone", "move", "--landing-zone", tmp_path / "new")
    now = present_zone(engine)
    assert status == 0
    assert f"was: {former}\nnow: {now}\n" in output
    assert "\n1 tables have published files and no folder there: t\n" in output
    assert "mirrorgate tables rebuild --all" in output
    shown = json.loads(terminal.run("landing-zone", "show", "--json")[1])
    assert now is not None
    assert shown == {"zone_id": str(now.zone_id), "location": str(tmp_path / "new")}


def test_doctor_names_the_zone_of_the_database_beside_the_one_that_is_looked_at(
    engine: sa.Engine, database_url: str, landing_zone: Path, tmp_path: Path, new_drain: NewDrain
) -> None:
    new_drain()

    def known(zone: Path) -> tuple[Outcome, str]:
        found = {finding.check: finding for finding in examine(ZoneAddress(str(zone)), database_url, {})}["zone_known"]
        return found.outcome, found.detail

    assert known(landing_zone)[0] is Outcome.OK
    outcome, detail = known(tmp_path / "other")
    assert outcome is Outcome.UNSAFE
    assert str(present_zone(engine)) in detail
