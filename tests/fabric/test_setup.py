"""`mirrorgate fabric init` and `delete` against Fabric's API and OneLake over sockets."""

import json
import os
import stat
from pathlib import Path
from unittest.mock import patch

import pytest

from app.cli.direct import direct_settings
from app.local.data_directory import read_settings_file, write_settings_file
from mirrorgate.errors import Misconfigured
from mirrorgate_zone.emulator.fabric_api import WORKSPACE_ID
from mirrorgate_zone.emulator.onelake import ITEM, OneLake
from tests.fabric.conftest import Terminal, interrupted
from tests.support.fabric.endpoint import Fabric

ZONE = f"abfss://{WORKSPACE_ID}@onelake.dfs.fabric.microsoft.com/{ITEM[0]}/Files/LandingZone"
DATA = Path(".mirrorgate-fabric")
FILE = DATA / "settings.env"


@pytest.fixture
def here(terminal: Terminal, onelake: OneLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in an empty folder that names neither workspace nor database."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MIRRORGATE_FABRIC_WORKSPACE")
    monkeypatch.delenv("MIRRORGATE_FABRIC_DATABASE")
    monkeypatch.setattr("app.fabric.client._POLL_SECONDS", 0.01)
    return terminal


def init(here: Terminal, *more: str) -> tuple[int, str, str]:
    return here.run("init", "--workspace", "Sales workspace", "--name", "orders", *more)


def sign_in(monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    monkeypatch.setenv("AZURE_TENANT_ID", "22222222-2222-3333-4444-555555555555")
    monkeypatch.setenv("AZURE_CLIENT_ID", "11111111-2222-3333-4444-555555555555")
    monkeypatch.setenv("AZURE_CLIENT_SECRET", secret)


def checks(output: str) -> dict[str, str]:
    """Return the outcome of each check by its name."""
    words = [line.split() for line in output.split("\n\n")[0].splitlines() if not line.startswith(" ")]
    return {check: outcome for outcome, check, *_ in words}


def test_init_creates_the_database_probes_onelake_and_ends_with_the_line_that_starts_the_gateway(
    here: Terminal, fabric: Fabric, onelake: OneLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(monkeypatch, "s3cret~value")
    status, output, _ = init(here, "--retention-days", "7")
    assert status == 0
    assert list(checks(output)) == [
        "fabric_token",
        "fabric_workspace",
        "fabric_capacity",
        "fabric_database",
        "fabric_state",
        "onelake_write",
        "settings_file",
    ]
    assert set(checks(output).values()) == {"ok"}
    assert output.splitlines()[-1] == "mirrorgate up --data-dir .mirrorgate-fabric"
    assert "AZURE_CLIENT_SECRET is not in the file" in output
    (database,) = fabric.service.databases.values()
    assert (database.name, database.status, database.started) == ("orders", "Initialized", 0)
    assert onelake.names("_scratchPad") == []
    assert stat.S_IMODE(FILE.stat().st_mode) == 0o600
    assert stat.S_IMODE(DATA.stat().st_mode) == 0o700
    found = read_settings_file(DATA)
    assert found["MIRRORGATE_LANDING_ZONE"] == ZONE
    assert (found["MIRRORGATE_FABRIC_WORKSPACE"], found["MIRRORGATE_FABRIC_DATABASE"]) == (WORKSPACE_ID, ITEM[0])
    assert (found["MIRRORGATE_FABRIC_START"], found["AZURE_CLIENT_ID"][:8]) == ("true", "11111111")
    assert "s3cret" not in FILE.read_text()


def test_a_repeat_of_init_needs_no_names_and_changes_nothing(here: Terminal, fabric: Fabric) -> None:
    init(here)
    before = FILE.read_bytes()
    status, output, _ = here.run("init")
    assert status == 0
    assert f"exists: orders ({ITEM[0]})" in output
    assert "is up to date" in output
    assert FILE.read_bytes() == before
    assert len(fabric.service.databases) == 1


def test_init_writes_a_secret_only_if_it_is_asked_to(here: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert init(here, "--save-secret")[0] == 2
    sign_in(monkeypatch, "it's ~ a $ecret")
    status, output, _ = init(here, "--save-secret")
    assert (status, "is not in the file" in output) == (0, False)
    assert read_settings_file(DATA)["AZURE_CLIENT_SECRET"] == "it's ~ a $ecret"
    assert "ecret" not in output.replace("settings", "")


def test_init_in_a_terminal_asks_for_workspace_and_name(here: Terminal, fabric: Fabric) -> None:
    status, output, errors = here.run("init", typed="7\nsales WORKSPACE\n\n")
    assert status == 0
    assert "  1  Sales workspace" in errors
    assert [one.name for one in fabric.service.databases.values()] == ["mirrorgate"]
    assert output.splitlines()[-1].startswith("mirrorgate up")


def test_init_without_a_terminal_names_the_missing_option(here: Terminal, fabric: Fabric) -> None:
    assert "leave the variable or option out" in here.run("init", "--name", "")[2]
    status, _, errors = here.run("init")
    assert (status, "Give --workspace" in errors) == (1, True)
    status, _, errors = here.run("init", "--workspace", "Sales workspace")
    assert (status, "Give --name" in errors) == (1, True)
    assert not fabric.service.databases
    assert not DATA.exists()


def test_init_as_json_has_checks_addresses_and_the_command(here: Terminal) -> None:
    found = json.loads(init(here, "--json")[1])
    assert {one["outcome"] for one in found["checks"]} == {"ok"}
    assert (found["landing_zone"], found["created"], found["state"]) == (ZONE, True, "initialized")
    assert found["start_command"] == "mirrorgate up --data-dir .mirrorgate-fabric"


def test_init_stops_at_a_paused_capacity_and_creates_nothing(here: Terminal, fabric: Fabric) -> None:
    fabric.service.capacity_state = "Paused"
    status, output, errors = init(here)
    assert status == 1
    assert checks(output)["fabric_capacity"] == "unsafe"
    assert "-> Resume the capacity" in output
    assert "run the command again" in errors
    assert not fabric.service.databases
    assert [one["outcome"] for one in json.loads(init(here, "--json")[1])["checks"]] == ["ok", "ok", "unsafe"]


def test_init_without_the_role_contributor_names_it(here: Terminal, fabric: Fabric) -> None:
    fabric.service.role = "Viewer"
    status, _, errors = init(here)
    assert status == 1
    assert "fabric_forbidden" in errors
    assert "Contributor" in errors


def test_init_names_the_tenant_setting_that_a_rejected_token_points_to(
    here: Terminal, fabric: Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORGATE_FABRIC_AUDIENCE", "https://other.example.com")
    status, output, _ = init(here)
    assert status == 1
    assert checks(output) == {"fabric_token": "unsafe"}
    assert "Service principals can call Fabric public APIs" in output


def test_init_names_the_onelake_setting_if_the_probe_file_cannot_be_written(here: Terminal, onelake: OneLake) -> None:
    onelake.tokens = set()
    status, output, _ = init(here)
    assert status == 1
    assert checks(output)["onelake_write"] == "unsafe"
    assert "Users can access data stored in OneLake with apps external to Fabric" in output
    assert not FILE.exists()


def test_init_leaves_a_quick_start_in_the_same_folder_alone(here: Terminal, fabric: Fabric) -> None:
    quick_start = Path(".mirrorgate")
    (quick_start / "postgres").mkdir(parents=True)
    status, _, errors = init(here, "--data-dir", str(quick_start))
    assert status == 1
    assert "landing_zone_changed" in errors
    assert not fabric.service.databases
    assert init(here)[0] == 0
    assert [path.name for path in quick_start.iterdir()] == ["postgres"]


def test_init_for_another_database_needs_another_data_directory(here: Terminal, fabric: Fabric) -> None:
    init(here)
    (DATA / "postgres").mkdir()
    status, _, errors = here.run("init", "--workspace", "Sales workspace", "--name", "returns")
    assert status == 1
    assert "Give another --data-dir" in errors
    assert [one.name for one in fabric.service.databases.values()] == ["orders"]
    assert read_settings_file(DATA)["MIRRORGATE_LANDING_ZONE"] == ZONE


def test_init_warns_of_a_landing_zone_of_the_terminal_that_goes_before_the_file(
    here: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORGATE_LANDING_ZONE", "/srv/zone")
    status, output, _ = init(here)
    assert status == 0
    assert "-> Unset MIRRORGATE_LANDING_ZONE" in output


@pytest.mark.parametrize(("state", "word"), [("Paused", "Resume replication"), ("Stopped", "first file")])
def test_init_on_a_database_that_does_not_run_says_what_to_do(
    here: Terminal, fabric: Fabric, state: str, word: str
) -> None:
    fabric.service.add("orders", state)
    status, output, _ = init(here)
    assert status == 0
    assert checks(output)["fabric_state"] == "warning"
    assert word in output


def test_commands_in_the_folder_of_init_know_its_database(here: Terminal, fabric: Fabric) -> None:
    init(here)
    fabric.service.databases[ITEM[0]].become("Starting")
    assert here.run("status")[0] == 1
    assert here.run("status")[1].startswith("Running")
    assert {one["outcome"] for one in here.json("doctor")} == {"ok"}


def test_commands_with_a_data_directory_take_the_landing_zone_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_settings_file(tmp_path, {"MIRRORGATE_LANDING_ZONE": ZONE})
    with patch.dict(os.environ):
        assert direct_settings(None, tmp_path).landing_zone == ZONE
    monkeypatch.setenv("MIRRORGATE_LANDING_ZONE", "/srv/zone")
    assert direct_settings(None, tmp_path).landing_zone == "/srv/zone"


def test_doctor_without_a_database_succeeds_once_its_prerequisites_are_there(here: Terminal, fabric: Fabric) -> None:
    status, output, _ = here.run("doctor", "--workspace", "Sales workspace")
    assert status == 0
    assert "mirrorgate fabric init" in output
    fabric.service.capacity_state = "Paused"
    assert here.run("doctor", "--workspace", "Sales workspace")[0] == 1


def test_delete_asks_for_the_name_and_deletes_what_init_has_made(here: Terminal, fabric: Fabric) -> None:
    init(here)
    assert here.run("delete")[0] == 1
    status, _, errors = here.run("delete", typed="order\n")
    assert (status, "nothing was deleted" in errors) == (1, True)
    assert ITEM[0] in fabric.service.databases
    status, output, errors = here.run("delete", typed="orders\n")
    assert status == 0
    assert "for good" in errors
    assert output.lstrip().startswith("deleted the mirrored database orders")
    assert not fabric.service.databases
    assert DATA.exists()
    assert not FILE.exists()


def test_delete_keeps_the_variables_that_somebody_added_and_the_folder_for_no_other_database(
    here: Terminal, fabric: Fabric
) -> None:
    init(here)
    write_settings_file(DATA, {"MIRRORGATE_PORT": "8500"})
    (DATA / "postgres").mkdir()
    assert here.run("delete", "--yes")[0] == 0
    assert read_settings_file(DATA) == {"MIRRORGATE_PORT": "8500"}
    status, _, errors = init(here)
    assert (status, "landing_zone_changed" in errors) == (1, True)
    assert not fabric.service.databases


def test_delete_of_another_database_keeps_the_file_of_init(here: Terminal, fabric: Fabric) -> None:
    init(here)
    other = fabric.service.add("other")
    found = json.loads(here.run("delete", "--database", "other", "--yes", "--json")[1])
    assert found == {"id": other.id, "name": "other", "deleted": True}
    assert FILE.exists()


def test_delete_waits_for_the_gateway_to_be_stopped(here: Terminal, fabric: Fabric, tmp_path: Path) -> None:
    init(here)
    (DATA / "postgres.socket").symlink_to(tmp_path)
    status, _, errors = here.run("delete", "--yes")
    assert status == 1
    assert "Stop it first" in errors
    assert fabric.service.databases


def test_ctrl_c_during_init_says_that_it_can_be_repeated(here: Terminal, fabric: Fabric) -> None:
    fabric.service.slow_operations = 1_000
    _, errors = interrupted("init", "--workspace", "Sales workspace", "--name", "orders", at="fabric_capacity")
    assert "Run the command again to continue" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("line", ["PATH=/tmp", "MIRRORGATE_HOST", "MIRRORGATE_HOST='x", "AZURE_X=a b", "LD_PRELOAD=x"])
def test_a_settings_file_with_a_foreign_line_is_rejected_by_number_without_its_text(tmp_path: Path, line: str) -> None:
    (tmp_path / "settings.env").write_text(f"# mine\n\n{line}\n")
    with pytest.raises(Misconfigured, match="line 3 of ") as caught:
        read_settings_file(tmp_path)
    assert line not in str(caught.value)


def test_a_settings_file_keeps_variables_that_somebody_added(tmp_path: Path) -> None:
    (tmp_path / "settings.env").write_text("MIRRORGATE_PORT=8500\n")
    assert write_settings_file(tmp_path, {"MIRRORGATE_HOST": "::1"})
    assert read_settings_file(tmp_path) == {"MIRRORGATE_PORT": "8500", "MIRRORGATE_HOST": "::1"}
    assert not write_settings_file(tmp_path, {"MIRRORGATE_HOST": "::1"})
