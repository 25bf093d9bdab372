"""`mirror status`, and the other commands on tables that the mirror itself has written."""

import json
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

from app.landing.local_zone import LocalZone
from app.mirror.inspection.maintenance import optimize_table, vacuum_table
from app.mirror.table_mirror import MirrorLimits, advance_table
from app.mirror.target import MirrorTarget
from app.published.table_files import PublishedTable
from mirrorgate.cli.main import app
from mirrorgate.errors import Code, MirrorgateError, TemporarilyUnavailable
from tests.support.cli_output import first_json

RUNNER = CliRunner()
SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string()), ("__rowMarker__", pa.int32())])


class Landed:
    """A landing zone with tables, and the target that the mirror writes."""

    def __init__(self, root: Path) -> None:
        self.zone, self.to = root / "zone", root / "mirror"
        self.target = MirrorTarget(str(self.to))

    def land(self, table: PublishedTable, number: int, *rows: tuple[int, str | None, int]) -> None:
        folder = self.zone / table.folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "_metadata.json").write_text(json.dumps({"keyColumns": ["id"]}))
        data = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)
        pq.write_table(data, folder / f"{number:020d}.parquet")

    def advance(self, table: PublishedTable) -> None:
        advance_table(LocalZone(self.zone), self.target, table, MirrorLimits(max_files=1))

    def run(self, *arguments: str) -> Result:
        return RUNNER.invoke(app, ["mirror", *arguments, "--to", str(self.to)])

    def json(self, *arguments: str, status: int = 0) -> Any:
        answer = self.run(*arguments, "--json")
        assert answer.exit_code == status, answer.output + repr(answer.exception)
        return first_json(answer.stdout)

    def status(self, status: int = 0) -> dict[str, Any]:
        return {one["table"]: one for one in self.json("status", str(self.zone), status=status)}


ORDERS = PublishedTable("sales", "my orders", "sales.schema/my orders")
PLAIN = PublishedTable(None, "plain", "plain")


@pytest.fixture
def landed(tmp_path: Path) -> Landed:
    landed = Landed(tmp_path)
    for number in (1, 2, 3):
        landed.land(ORDERS, number, (number, "a", 0), (1, "b", 1))
    landed.land(PLAIN, 1, (1, "p", 0))
    for _ in range(3):
        landed.advance(ORDERS)
    landed.advance(PLAIN)
    return landed


def test_tables_in_step_and_behind_are_fine(landed: Landed) -> None:
    landed.land(PLAIN, 2, (2, "q", 0))
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
    landed.land(PLAIN, 3, (3, "r", 0))
    landed.land(ORDERS, 4, (4, "d", 0))
    broken = landed.zone / ORDERS.folder / f"{4:020d}.parquet"
    broken.write_bytes(b"PAR1 no Parquet file")
    found = landed.status(status=1)
    assert found["plain"]["state"] == "waiting"
    assert "file 2" in found["plain"]["reason"]["detail"]
    assert found["sales.my orders"]["state"] == "stopped"
    answer = landed.run("status", str(landed.zone))
    assert answer.exit_code == 1
    assert answer.stdout.count("remedy: ") == 2


def test_a_table_of_a_gateway_whose_last_file_is_foreign_is_not_in_step(landed: Landed) -> None:
    marker = {"table": "plain", "generation": 1, "installation_id": str(uuid4())}
    (landed.zone / PLAIN.folder / "_gateway.json").write_text(json.dumps(marker))
    plain = landed.status(status=1)["plain"]
    assert (plain["state"], plain["reason"]["code"]) == ("stopped", "foreign_file")
    assert f"{PLAIN.folder}/{1:020d}.parquet" in plain["reason"]["detail"]


def test_a_dropped_table_is_listed_and_its_rows_remain(landed: Landed) -> None:
    shutil.rmtree(landed.zone / "sales.schema")
    assert landed.status()["sales.my orders"]["state"] == "dropped"
    assert landed.json("query", 'SELECT count(*) AS n FROM "my orders"') == [{"n": 3}]


def test_the_zone_and_target_of_a_local_gateway_are_found(landed: Landed, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mirror").symlink_to(landed.to)
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
    landed.land(ORDERS, 4, (1, "c", 4), (2, None, 2), (9, "n", 0), (9, "n", 0))
    landed.advance(ORDERS)
    assert landed.json("diff", "my orders", "--file", "4") == [
        {"key": {"id": 1}, "change": "update", "columns": ["note"]},
        {"key": {"id": 2}, "change": "delete", "columns": []},
        {"key": {"id": 9}, "change": "insert", "columns": []},
        {"key": {"id": 9}, "change": "insert", "columns": []},
    ]


@pytest.mark.thorough
def test_maintenance_beside_the_mirror_loses_no_file(landed: Landed) -> None:
    stop = threading.Event()

    def maintain() -> None:
        while not stop.is_set():
            with suppress(TemporarilyUnavailable):  # the mirror won each time; pytest fails for other errors
                optimize_table(landed.target, str(ORDERS), cluster=True)
                vacuum_table(landed.target, [str(ORDERS)], str(ORDERS), retention_hours=168)

    thread = threading.Thread(target=maintain)
    thread.start()
    try:
        for number in range(4, 34):
            landed.land(ORDERS, number, (number, "a", 0), (1, str(number), 1))
        for _ in range(500):
            landed.advance(ORDERS)
            if landed.status()[str(ORDERS)]["state"] == "in_step":
                break
    finally:
        stop.set()
        thread.join()
    assert landed.status()[str(ORDERS)]["file_number"] == 33
    rows = landed.json("query", 'SELECT id, note FROM "my orders" ORDER BY id')
    assert rows == [{"id": number, "note": "33" if number == 1 else "a"} for number in range(1, 34)]
    applied = [one["files"] for one in landed.json("history", "my orders", "--limit", "0") if one["files"]]
    assert applied == [[number, number] for number in range(33, 0, -1)]
