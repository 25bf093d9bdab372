"""`mirror status`, and the other commands on tables that the mirror itself has written."""

import json
import shutil
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import Result
from typer.testing import CliRunner

from app.mirror.inspection.difference import between, of_file
from app.mirror.inspection.history import find_table, open_table, parse_point, read_history, table_names
from app.mirror.inspection.maintenance import optimize_table, vacuum_table
from app.mirror.table_mirror import MirrorLimits
from app.mirror.target import MirrorTarget
from app.published.table_files import PublishedTable
from mirrorgate.cli.main import app
from mirrorgate.errors import Code, MirrorgateError, Misconfigured, RejectedInput, TemporarilyUnavailable
from tests.mirror.inspection.mirrored import Mirrored
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


def test_each_version_says_what_it_applied(table: Mirrored) -> None:
    table.commit([(1, "a"), (2, "b")])
    table.commit([(3, "c")], deleted=[(1,)], files=4)
    newest, first = read_history(table.target, table.delta())
    assert (first.version, first.operation, first.files, first.generation) == (0, "mirror", (1, 1), 1)
    assert (newest.files, newest.deleted_keys, newest.appended_rows) == ((2, 5), 1, 1)
    assert newest.rows == {"0": 1, "1": 0, "2": 1, "4": 0}
    assert newest.to_json()["files"] == [2, 5]
    assert abs(newest.time - datetime.now(UTC)) < timedelta(minutes=1)


def test_maintenance_and_restore_are_named(table: Mirrored) -> None:
    table.commit([(1, "a")])
    table.commit([(2, "b")])
    table.delta().optimize.compact()
    table.delta().restore(0)
    table.delta().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    named = [entry.operation for entry in read_history(table.target, table.delta())]
    assert named == ["vacuum", "vacuum", "restore", "optimize", "mirror", "mirror"]


def test_a_table_is_found_by_its_name_alone_and_in_any_letter_case() -> None:
    names = ["A.t", "b.T2", "b.orders", "c.orders", "plain"]
    assert [find_table(names, name) for name in ("A.t", "a.T", "t2", "PLAIN")] == ["A.t", "A.t", "b.T2", "plain"]
    with pytest.raises(RejectedInput, match=r"b\.orders, c\.orders"):
        find_table(names, "orders")
    assert find_table(["t", "T"], "T") == "T"


def test_an_unknown_table_names_what_there_is() -> None:
    with pytest.raises(RejectedInput) as caught:
        find_table([f"s.table{number}" for number in range(20)], "s.tabel3")
    assert "s.table3" in caught.value.detail
    assert "and 12 more" in caught.value.remedy


@pytest.mark.parametrize("folder", ["missing", "not_a_mirror"])
def test_a_target_without_tables_is_no_mirror(tmp_path: Path, folder: str) -> None:
    (tmp_path / "not_a_mirror" / "sub").mkdir(parents=True)
    with pytest.raises(Misconfigured, match="no Delta table") as caught:
        table_names(MirrorTarget(str(tmp_path / folder)))
    assert "mirrorgate mirror run" in caught.value.remedy


def test_a_time_means_the_version_that_was_there_then(table: Mirrored) -> None:
    for number in range(3):
        table.commit([(number, "a")])
    assert [entry.version for entry in read_history(table.target, table.delta(1))] == [1, 0]
    assert [entry.version for entry in read_history(table.target, table.delta(), 2)] == [2, 1]
    for entry in read_history(table.target, table.delta()):
        assert open_table(table.target, table.name, entry.time).version() == entry.version
    later = datetime.now(UTC) + timedelta(days=1)
    assert open_table(table.target, table.name, later).version() == 2


def test_points_in_time_are_versions_or_times() -> None:
    assert parse_point("17") == 17
    assert parse_point("2026-11-22T15:00:00+02:00") == datetime(2026, 11, 22, 13, tzinfo=UTC)
    assert parse_point("2026-11-22") == datetime(2026, 11, 22, tzinfo=UTC)
    for wrong in ("", "-1", "yesterday", "v2"):
        with pytest.raises(ValueError, match=r".+"):
            parse_point(wrong)


def test_the_version_of_a_file_is_found_behind_maintenance(table: Mirrored) -> None:
    table.commit([(1, "a")])
    table.commit([(2, "b")], files=3)
    table.delta().optimize.compact()
    table.commit([(3, "c")])
    for file, version in ((1, 0), (2, 1), (4, 1), (5, 3)):
        assert of_file(table.target, "t", file).after.version() == version
    assert of_file(table.target, "t", 1).before is None
    with of_file(table.target, "t", 3).compared("1GB") as found:
        assert found.counts == {"insert": 1, "update": 0, "delete": 0}
    with pytest.raises(RejectedInput, match="its last file is 5"):
        of_file(table.target, "t", 6)


def test_a_version_whose_files_a_vacuum_removed_is_answered_so(table: Mirrored) -> None:
    table.commit([(1, "a")])
    table.commit([(1, "b")], deleted=[(1,)])
    table.delta().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    pair = between(table.target, "t", 0, 1)
    with pytest.raises(RejectedInput, match=Code.UNKNOWN_VERSION) as caught, pair.compared("1GB") as found:
        list(found.changes())
    assert "vacuum" in caught.value.detail


def test_a_log_that_cannot_be_read_is_tried_again_later(table: Mirrored) -> None:
    table.commit([(1, "a")])
    log = Path(table.uri) / "_delta_log" / f"{0:020}.json"
    log.write_text("{ this is no action")
    with pytest.raises(MirrorgateError, match=Code.MIRROR_AWAY):
        open_table(table.target, table.name)
