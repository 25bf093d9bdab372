"""`mirrorgate fabric` against Fabric's API and OneLake over sockets, in this process; Ctrl-C in another one."""

import base64
import json
import sys
from pathlib import Path

import pytest

from app.domain.fabric import STATES
from app.fabric import DatabaseState
from mirrorgate_zone.emulator.fabric_api import WORKSPACE_ID, Database, sync, table
from mirrorgate_zone.emulator.onelake import ITEM, OneLake
from tests.fabric.conftest import Terminal, interrupted
from tests.support.fabric.endpoint import Fabric
from tests.support.processes import REPOSITORY, finished

ZONE = f"abfss://{WORKSPACE_ID}@onelake.dfs.fabric.microsoft.com/{ITEM[0]}/Files/LandingZone"
FILE = "00000000000000000001.parquet"


def running(fabric: Fabric) -> Database:
    database = fabric.service.add("orders")
    database.polls = 0
    return database


def publish(onelake: OneLake, *paths: str) -> None:
    for path in paths:
        onelake.tree.write_inside(f"{onelake.landing_zone}/{path}", b"{}")


def test_create_prints_the_landing_zone_and_a_repeat_changes_nothing(
    fabric: Fabric, terminal: Terminal, onelake: OneLake
) -> None:
    status, output, _ = terminal.run("create", "--name", "orders", "--retention-days", "7")
    assert (status, output.splitlines()[:2]) == (
        0,
        [f"created the mirrored database orders ({ITEM[0]})", f"landing zone: {ZONE}"],
    )
    status, output, _ = terminal.run("create", "--name", "orders")
    assert (status, output.splitlines()[0]) == (
        0,
        f"the mirrored database orders ({ITEM[0]}) exists; nothing was changed",
    )
    assert "retention in days: 7" in output
    assert terminal.json("create", "--name", "orders") == {
        "id": ITEM[0],
        "name": "orders",
        "workspace_id": WORKSPACE_ID,
        "created": False,
        "landing_zone": ZONE,
        "tables": ZONE.replace("Files/LandingZone", "Tables"),
    }


def test_create_rejects_a_name_that_another_kind_of_mirroring_has(fabric: Fabric, terminal: Terminal) -> None:
    database = fabric.service.add("orders")
    database.parts[0]["payload"] = "eyJwcm9wZXJ0aWVzIjogeyJzb3VyY2UiOiB7InR5cGUiOiAiU25vd2ZsYWtlIn19fQ=="
    status, _, errors = terminal.run("create", "--name", "orders")
    assert status == 1
    assert "its source is Snowflake, not open mirroring" in errors


def test_the_change_data_feed_is_a_member_of_the_definition(
    fabric: Fabric, terminal: Terminal, onelake: OneLake
) -> None:
    assert terminal.run("create", "--name", "orders", "--change-data-feed")[0] == 0
    (database,) = fabric.service.databases.values()
    target = database.mirroring["properties"]["target"]["typeProperties"]
    assert target == {"format": "Delta", "defaultSchema": "dbo", "enableDeltaChangeDataFeed": True}
    assert "its change data feed: on" in terminal.run("create", "--name", "orders")[1]


def test_update_changes_only_what_is_given_and_a_repeat_changes_nothing(fabric: Fabric, terminal: Terminal) -> None:
    written = {
        "properties": {
            "source": {"type": "GenericMirror", "typeProperties": {"other": 1}},
            "target": {
                "type": "MountedRelationalDatabase",
                "typeProperties": {"format": "Delta", "retentionInDays": 3},
            },
            "mountedTables": [],
        }
    }
    payload = base64.b64encode(json.dumps(written).encode()).decode()
    platform = {"path": ".platform", "payload": "e30=", "payloadType": "InlineBase64"}
    part = {"path": "mirroring.json", "payload": payload, "payloadType": "InlineBase64"}
    database = fabric.service.add("orders", parts=[part, platform])
    assert terminal.run("update", "--change-data-feed")[:2] == (
        0,
        "the definition was changed\n  change data feed: on; retention in days: 3\n",
    )
    written["properties"]["target"]["typeProperties"]["enableDeltaChangeDataFeed"] = True
    assert database.mirroring == written
    assert terminal.json("update", "--change-data-feed") == {
        "id": database.id,
        "changed": False,
        "change_data_feed": True,
        "retention_days": 3,
    }
    assert terminal.json("update", "--no-change-data-feed", "--retention-days", "9")["changed"] is True
    assert [*fabric.service.calls()].count("updateDefinition") == 2
    assert "nothing to change" in terminal.run("update")[2]


def test_refresh_shows_the_result_of_each_table_of_the_sql_endpoint(fabric: Fabric, terminal: Terminal) -> None:
    database = running(fabric)
    database.tables = [table("orders"), table("items")]
    status, output, _ = terminal.run("refresh", "--timeout", "60")
    assert status == 0
    assert [line.split()[:2] for line in output.splitlines()[1:]] == [["items", "Success"], ["orders", "Success"]]
    assert database.refreshed == [{"recreateTables": False, "timeout": {"timeUnit": "Seconds", "value": 60}}]
    error = {"errorCode": "UserErrorSchema", "message": "A column has two types."}
    database.synced = [sync("orders", "Failure", error=error), sync("items", "NotRun")]
    status, output, _ = terminal.run("refresh", "--recreate")
    assert status == 1
    assert "UserErrorSchema: A column has two types." in output
    assert database.refreshed[-1]["recreateTables"] is True
    assert [(one["name"], one["failed"], one["synced"]) for one in terminal.json("refresh")] == [
        ("orders", True, None),
        ("items", False, None),
    ]
    fabric.service.role = "Viewer"
    assert "fabric_forbidden" in terminal.run("refresh")[2]


def test_export_writes_the_item_folder_for_git_and_a_repeat_writes_nothing(
    fabric: Fabric, terminal: Terminal, onelake: OneLake, tmp_path: Path
) -> None:
    terminal.run("create", "--name", "orders", "--retention-days", "7")
    status, output, _ = terminal.run("export", "--to", str(tmp_path))
    item = tmp_path / "orders.MirroredDatabase"
    assert (status, sorted(path.name for path in item.iterdir())) == (0, [".platform", "mirroring.json"])
    assert "after a deployment: `mirrorgate fabric start`" in output
    platform = json.loads((item / ".platform").read_bytes())
    assert platform["metadata"] == {"type": "MirroredDatabase", "displayName": "orders", "description": ""}
    assert platform["config"]["logicalId"] == ITEM[0]
    assert json.loads((item / "mirroring.json").read_bytes())["properties"]["source"]["type"] == "GenericMirror"
    assert terminal.json("export", "--to", str(tmp_path))["written"] == []
    (item / "mirroring.json").write_bytes(b"{}")
    assert terminal.json("export", "--to", str(tmp_path))["written"] == ["mirroring.json"]
    status, _, errors = terminal.run("export", "--to", str(item / "mirroring.json"))
    assert (status, "cannot be written: Not a directory" in " ".join(errors.replace("│", "").split())) == (2, True)
    next(iter(fabric.service.databases.values())).name = "../orders"
    found = terminal.json("export", "--database", ITEM[0], "--to", str(tmp_path / "git"))
    assert found["folder"] == str(tmp_path / "git" / ".._orders.MirroredDatabase")


def test_start_names_the_tables_that_are_not_prepared(fabric: Fabric, terminal: Terminal, onelake: OneLake) -> None:
    fabric.service.add("orders", "Initialized").polls = 0
    assert "fabric_not_prepared: there is no table yet" in terminal.run("start")[2]
    publish(onelake, "a/_gateway.json", "b/_metadata.json")
    status, _, errors = terminal.run("start")
    assert status == 1
    assert "fabric_not_prepared: a: no _metadata.json; b: no data file" in errors
    assert "startMirroring" not in fabric.service.calls()


def test_start_looks_at_the_landing_zone_of_the_database_that_it_starts(
    fabric: Fabric, terminal: Terminal, onelake: OneLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric.service.add("returns", "Initialized").polls = 0
    monkeypatch.setenv("MIRRORGATE_LANDING_ZONE", ZONE.replace(ITEM[0], "11111111-2222-3333-4444-555555555555"))
    publish(onelake, "a/_gateway.json")
    assert "fabric_not_prepared: a: no _metadata.json" in terminal.run("start", "--database", "returns")[2]


def test_start_waits_until_the_database_runs_and_a_repeat_changes_nothing(
    fabric: Fabric, terminal: Terminal, onelake: OneLake
) -> None:
    database = fabric.service.add("orders", "Initialized")
    database.polls = 0
    publish(onelake, "a/_metadata.json", f"a/{FILE}", "s.schema/b/_metadata.json", f"s.schema/b/_ProcessedFiles/{FILE}")
    assert terminal.run("start")[:2] == (0, "orders is running (Running)\n")
    assert terminal.run("start")[:2] == (0, "orders is running already; nothing was changed (Running)\n")
    assert database.started == 1


def test_start_of_a_stopping_database_waits_until_it_is_stopped(fabric: Fabric, terminal: Terminal) -> None:
    database = fabric.service.add("orders")
    database.polls = 0
    database.become("Stopping")
    assert terminal.run("start", "--force")[:2] == (0, "orders is running (Running)\n")
    assert database.started == 1


def test_start_of_a_paused_database_asks_first(fabric: Fabric, terminal: Terminal) -> None:
    fabric.service.add("orders", "Paused").polls = 0
    status, _, errors = terminal.run("start", "--force")
    assert status == 1
    assert "Resume replication" in errors
    assert terminal.run("start", "--force", "--yes")[0] == 0


def test_stop_explains_and_asks_and_a_repeat_changes_nothing(fabric: Fabric, terminal: Terminal) -> None:
    running(fabric)
    status, _, errors = terminal.run("stop")
    assert status == 1
    assert "from its first file again" in errors
    assert "stopMirroring" not in fabric.service.calls()
    assert terminal.run("stop", "--yes")[:2] == (0, "orders is stopped (Stopped)\n")
    assert terminal.run("stop", "--yes")[:2] == (0, "orders does not run; nothing was changed (Stopped)\n")


def test_status_shows_tables_and_the_remedy_of_a_failed_one(fabric: Fabric, terminal: Terminal) -> None:
    database = running(fabric)
    database.tables = [table("orders", rows=12345)]
    status, output, _ = terminal.run("status")
    assert status == 0
    assert output.startswith("Running: Fabric reads the landing zone\n")
    assert "dbo.orders  Replicating  12,345  2,469,000" in output
    fault = {"errorCode": "SchemaMergeFailure", "message": "The column has another type."}
    database.tables.append(table("lines", "Failed", error=fault))
    status, output, _ = terminal.run("status")
    assert status == 1
    assert "dbo.lines: Failed: SchemaMergeFailure: The column has another type." in output
    assert "mirrorgate tables repair" in output
    assert [one["failed"] for one in terminal.json("status")["tables"]] == [False, True]


@pytest.mark.parametrize("raw", ["Paused", "Stopped", "Failed", "Initialized", "Resuming"])
def test_status_of_a_database_that_does_not_run_says_what_to_do(fabric: Fabric, terminal: Terminal, raw: str) -> None:
    fabric.service.add("orders", raw)
    state = DatabaseState.UNKNOWN if raw == "Resuming" else DatabaseState(raw.lower())
    status, output, _ = terminal.run("status")
    assert status == 1
    assert output.startswith(f"{raw}: {STATES[state].meaning}")
    assert f"remedy: {STATES[state].remedy}" in output


def findings(terminal: Terminal) -> dict[str, tuple[str, str, str]]:
    return {one["check"]: (one["outcome"], one["detail"], one["remedy"]) for one in terminal.json("doctor")}


def test_doctor_finds_nothing_wrong_with_a_running_database(
    fabric: Fabric, terminal: Terminal, onelake: OneLake
) -> None:
    running(fabric)
    publish(onelake, "a/_metadata.json")
    assert {name: found[0] for name, found in findings(terminal).items()} == {
        "fabric_token": "ok",
        "fabric_workspace": "ok",
        "fabric_capacity": "ok",
        "fabric_database": "ok",
        "fabric_rights": "ok",
        "fabric_definition": "ok",
        "fabric_landing_zone": "ok",
        "fabric_mirroring": "ok",
    }


def test_doctor_names_every_problem_with_its_remedy(
    fabric: Fabric, terminal: Terminal, onelake: OneLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = running(fabric)
    database.status = "Paused"
    fabric.service.capacity_state = "Inactive"
    fabric.service.role = "Viewer"
    monkeypatch.setenv("MIRRORGATE_LANDING_ZONE", ZONE.replace(ITEM[0], "11111111-2222-3333-4444-555555555555"))
    found = findings(terminal)
    unsafe = {name for name, one in found.items() if one[0] == "unsafe"}
    assert unsafe == {"fabric_capacity", "fabric_rights", "fabric_landing_zone", "fabric_mirroring"}
    assert all(found[name][2] for name in unsafe)
    assert "Resume replication" in found["fabric_mirroring"][2]


def test_doctor_finds_a_landing_zone_of_a_namesake_in_another_workspace(
    fabric: Fabric, terminal: Terminal, onelake: OneLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(fabric)
    namesake = ZONE.replace(WORKSPACE_ID, "Other [test]").replace(ITEM[0], "orders.MirroredDatabase")
    monkeypatch.setenv("MIRRORGATE_LANDING_ZONE", namesake)
    outcome, detail, remedy = findings(terminal)["fabric_landing_zone"]
    assert (outcome, "of another workspace" in detail) == ("unsafe", True)
    assert ZONE in remedy


def test_doctor_shows_the_first_missing_step(
    fabric: Fabric, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert findings(terminal)["fabric_database"][0] == "unsafe"
    fabric.service.role = "None"
    assert list(findings(terminal)) == ["fabric_workspace"]
    monkeypatch.setenv("IDENTITY_HEADER", "wrong")
    assert list(findings(terminal)) == ["fabric_token"]


def test_a_command_shows_warnings_and_no_retries() -> None:
    program = (
        "import structlog; from app.cli.fabric import fabric_settings; fabric_settings('doctor', 'w', 'd');"
        "log = structlog.get_logger(); log.info('storage_retry'); log.warning('look_here')"
    )
    ran = finished(sys.executable, "-c", program)
    assert ran.returncode == 0, ran.stderr
    assert (ran.stdout, "look_here" in ran.stderr, "storage_retry" in ran.stderr) == ("", True, False)


def test_every_state_has_an_explanation_and_a_row_in_the_docs() -> None:
    page = (REPOSITORY / "docs" / "operate" / "fabric-database.md").read_text()
    for state in DatabaseState:
        assert STATES[state].meaning
        assert f"| *{state.replace('_', ' ').capitalize()}* |" in page


def test_ctrl_c_ends_a_watch_without_a_traceback(fabric: Fabric) -> None:
    fabric.service.add("orders", "Paused")
    names = ["--workspace", "Sales workspace", "--database", "orders"]
    line, errors = interrupted("status", "--watch", "--json", *names, at="raw")
    assert json.loads(line)["raw"] == "Paused"
    assert errors == ""
