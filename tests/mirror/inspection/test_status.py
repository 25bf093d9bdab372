"""`mirror status`, and the other commands on tables that the mirror itself has written."""

import json
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import Result
from typer.testing import CliRunner

from app.mirror.inspection.maintenance import optimize_table, vacuum_table
from app.mirror.table_mirror import MirrorLimits
from app.published.table_files import PublishedTable
from mirrorgate.cli.main import app
from mirrorgate.errors import Code, MirrorgateError, TemporarilyUnavailable
from tests.mirror.small_zone import SmallZone
from tests.support.cli_output import first_json

RUNNER = CliRunner()


class Landed:
    """Two tables of a landing zone, and the commands on their mirror."""

    def __init__(self, place: Path) -> None:
        self.orders, self.plain = SmallZone(place), SmallZone(place, PublishedTable(None, "plain", "plain"))
        self.zone = self.orders.root

    def run(self, *arguments: str) -> Result:
        return RUNNER.invoke(app, ["mirror", *arguments, "--to", self.orders.target.location])

    def json(self, *arguments: str, status: int = 0) -> Any:
        answer = self.run(*arguments, "--json")
        assert answer.exit_code == status, answer.output + repr(answer.exception)
        return first_json(answer.stdout)

    def status(self, status: int = 0) -> dict[str, Any]:
        return {one["table"]: one for one in self.json("status", str(self.zone), status=status)}


@pytest.fixture
def landed(tmp_path: Path) -> Landed:
    """Yield `orders` with three mirrored files, and `plain` with one."""
    landed = Landed(tmp_path)
    for number in (1, 2, 3):
        landed.orders.land(number, [(number, "a", 0), (1, "b", 1)])
        landed.orders.advance()
    landed.plain.land(1, [(1, "p", 0)])
    landed.plain.advance()
    return landed


def test_tables_in_step_and_behind_are_fine(landed: Landed) -> None:
    landed.plain.land(2, [(2, "q", 0)])
    found = landed.status()
    orders = found["sales.my orders"]
    assert (orders["state"], orders["version"], orders["file_number"], orders["lag_seconds"]) == ("in_step", 2, 3, 0.0)
    plain = found["plain"]
    assert (plain["state"], plain["file_number"], plain["last_file"], plain["pending_files"]) == ("behind", 1, 2, 1)
    assert plain["lag_seconds"] > 0
    assert plain["reason"] is None
    text = landed.run("status", str(landed.zone)).stdout
    assert "in step" in text
    assert "behind" in text


def test_a_gap_and_a_broken_file_are_the_exit_status(landed: Landed) -> None:
    landed.plain.land(3, [(3, "r", 0)])
    broken = landed.orders.land(4, [(4, "d", 0)])
    broken.write_bytes(b"PAR1 no Parquet file")
    found = landed.status(status=1)
    assert found["plain"]["state"] == "waiting"
    assert "file 2" in found["plain"]["reason"]["detail"]
    assert found["sales.my orders"]["state"] == "stopped"
    answer = landed.run("status", str(landed.zone))
    assert answer.exit_code == 1
    assert answer.stdout.count("remedy: ") == 2


def test_a_damaged_table_is_named_with_its_remedy_and_the_others_are_treated(landed: Landed) -> None:
    (landed.orders.delta_folder / "_delta_log" / f"{1:020}.json").unlink()
    found = landed.status(1)
    assert {name: one["state"] for name, one in found.items()} == {"plain": "in_step", "sales.my orders": "stopped"}
    assert "delete" in found["sales.my orders"]["reason"]["remedy"]
    landed.run("pin", "plain", "--name", "a")
    for command in ("health", "optimize", "vacuum", "pins"):
        answer = landed.run(command)
        assert (answer.exit_code, "plain" in answer.output) == (1, True), command
        assert isinstance(answer.exception, MirrorgateError)
        assert "sales.my orders" in answer.exception.detail
        assert "delete" in answer.exception.remedy
    shutil.rmtree(landed.orders.delta_folder)
    landed.orders.advance(MirrorLimits())
    assert landed.status()["sales.my orders"]["file_number"] == 3


def test_a_table_of_a_gateway_whose_last_file_is_foreign_is_not_in_step(landed: Landed) -> None:
    marker = {"table": "plain", "generation": 1, "installation_id": str(uuid4())}
    (landed.plain.folder / "_gateway.json").write_text(json.dumps(marker))
    plain = landed.status(status=1)["plain"]
    assert (plain["state"], plain["reason"]["code"]) == ("stopped", "foreign_file")
    assert f"plain/{1:020d}.parquet" in plain["reason"]["detail"]


def test_a_dropped_table_is_listed_and_its_rows_remain(landed: Landed) -> None:
    shutil.rmtree(landed.zone / "sales.schema")
    assert landed.status()["sales.my orders"]["state"] == "dropped"
    assert landed.json("query", 'SELECT count(*) AS n FROM "my orders"') == [{"n": 3}]


def test_the_zone_and_target_of_a_local_gateway_are_found(landed: Landed, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mirror").symlink_to(landed.orders.target.location)
    (tmp_path / "data" / "landing-zone").symlink_to(landed.zone)
    answer = RUNNER.invoke(app, ["mirror", "status", "--data-dir", str(tmp_path / "data"), "--json"])
    assert {one["table"] for one in first_json(answer.stdout)} == {"plain", "sales.my orders"}


def test_a_missing_zone_is_an_error(landed: Landed, tmp_path: Path) -> None:
    error = landed.run("status", str(tmp_path / "nowhere")).exception
    assert isinstance(error, MirrorgateError)
    assert error.code is Code.LANDING_ZONE_UNUSABLE


def test_the_mirrors_own_commits_are_explained(landed: Landed) -> None:
    newest = landed.json("history", "my orders")[0]
    assert (newest["operation"], newest["files"], newest["generation"]) == ("mirror", [3, 3], 1)
    assert newest["rows"] == {"0": 1, "1": 1, "2": 0, "4": 0}
    assert landed.json("diff", "my orders", "--file", "2") == [
        {"key": {"id": 2}, "change": "insert", "columns": []},
    ]
    landed.orders.land(4, [(1, "c", 4), (2, None, 2), (9, "n", 0), (9, "n", 0)])
    landed.orders.advance()
    assert landed.json("diff", "my orders", "--file", "4") == [
        {"key": {"id": 1}, "change": "update", "columns": ["note"]},
        {"key": {"id": 2}, "change": "delete", "columns": []},
        {"key": {"id": 9}, "change": "insert", "columns": []},
        {"key": {"id": 9}, "change": "insert", "columns": []},
    ]


@pytest.mark.thorough
def test_maintenance_beside_the_mirror_loses_no_file(landed: Landed) -> None:
    stop, name = threading.Event(), str(landed.orders.table)

    def maintain() -> None:
        while not stop.is_set():
            with suppress(TemporarilyUnavailable):  # the mirror won each time; pytest fails for other errors
                optimize_table(landed.orders.target, name, cluster=True)
                vacuum_table(landed.orders.target, [name], name, retention_hours=168)

    thread = threading.Thread(target=maintain)
    thread.start()
    try:
        for number in range(4, 34):
            landed.orders.land(number, [(number, "a", 0), (1, str(number), 1)])
        for _ in range(500):
            landed.orders.advance()
            if landed.status()[name]["state"] == "in_step":
                break
    finally:
        stop.set()
        thread.join()
    assert landed.status()[name]["file_number"] == 33
    rows = landed.json("query", 'SELECT id, note FROM "my orders" ORDER BY id')
    assert rows == [{"id": number, "note": "33" if number == 1 else "a"} for number in range(1, 34)]
    applied = [one["files"] for one in landed.json("history", "my orders", "--limit", "0") if one["files"]]
    assert applied == [[number, number] for number in range(33, 0, -1)]
