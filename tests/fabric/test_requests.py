"""The real client of Fabric over sockets: tokens, throttling, repeats, operations, and states as they are read."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.domain.fabric import parse_database_status, parse_table
from app.fabric import DatabaseState, DatabaseStatus, FabricFault, TableMirroring
from app.fabric.definition import Definition
from app.fabric.transport import FabricRejected
from mirrorgate.errors import Code, MirrorgateError
from mirrorgate_zone.emulator.fabric_api import STORAGE_AUDIENCE, WORKSPACE_ID, Answer, table
from tests.support.fabric.endpoint import Fabric
from tests.support.fabric.fixtures import FastClock, OpenClient


def test_the_token_is_for_fabrics_api(fabric: Fabric, open_client: OpenClient) -> None:
    fabric.service.add("orders")
    with open_client() as client:
        client.database_status()
    assert set(fabric.service.tokens.values()) == {"https://api.fabric.microsoft.com"}


def test_a_token_for_storage_is_rejected(
    fabric: Fabric, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric.service.add("orders")
    monkeypatch.setenv("MIRRORGATE_FABRIC_AUDIENCE", STORAGE_AUDIENCE)
    with open_client() as client, pytest.raises(FabricRejected, match=Code.FABRIC_UNAUTHORIZED) as rejected:
        client.database_status()
    assert "InvalidToken: Access token is invalid (request " in rejected.value.detail


def test_a_revoked_token_is_renewed_once(fabric: Fabric, open_client: OpenClient) -> None:
    fabric.service.add("orders")
    with open_client() as client:
        client.database_status()
        fabric.service.tokens.clear()
        assert client.database_status().raw == "Running"
    assert len(fabric.service.tokens) == 1


def test_without_a_credential_the_remedy_names_the_variables(
    fabric: Fabric, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDENTITY_HEADER", "wrong")
    with open_client() as client, pytest.raises(MirrorgateError, match=Code.FABRIC_UNAUTHORIZED) as raised:
        client.database_status()
    assert "AZURE_TENANT_ID" in raised.value.remedy


def test_throttling_is_waited_for_as_long_as_fabric_says(
    fabric: Fabric, open_client: OpenClient, clock: FastClock
) -> None:
    fabric.service.add("orders")
    fabric.service.throttle("getMirroringStatus", 17)
    with open_client() as client:
        assert client.database_status().raw == "Running"
    assert clock.slept == [17.0]


def test_throttling_beyond_the_patience_is_an_error_with_the_time(fabric: Fabric, open_client: OpenClient) -> None:
    fabric.service.add("orders")
    fabric.service.throttle("getMirroringStatus", 300)
    with open_client(patience=60) as client, pytest.raises(MirrorgateError) as raised:
        client.database_status()
    assert (raised.value.code, raised.value.detail) == (Code.FABRIC_THROTTLED, "Fabric asks to wait for 300 seconds")


def test_faults_of_the_service_are_repeated(fabric: Fabric, open_client: OpenClient, clock: FastClock) -> None:
    fabric.service.add("orders")
    fabric.service.plan("getMirroringStatus", Answer(503), Answer(200, lost=True))
    with open_client() as client:
        assert client.database_status().raw == "Running"
    assert clock.slept == [0.5, 1.0]


def test_a_service_that_stays_away_is_unavailable(
    fabric: Fabric, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORGATE_FABRIC_API", "https://127.0.0.1:1")
    with open_client() as client, pytest.raises(MirrorgateError, match=Code.FABRIC_UNAVAILABLE):
        client.database_status()


@pytest.mark.parametrize("body", [{"value": "x"}, {"value": [1]}, {"value": [{"displayName": "Sales workspace"}]}])
def test_json_of_another_form_is_named_as_such(fabric: Fabric, open_client: OpenClient, body: dict[str, Any]) -> None:
    fabric.service.plan("workspaces", Answer(200, body))
    with open_client() as client, pytest.raises(MirrorgateError, match=Code.FABRIC_UNAVAILABLE) as raised:
        client.database_status()
    assert "JSON of another form" in raised.value.detail
    assert "MIRRORGATE_FABRIC_API" in raised.value.remedy


@pytest.mark.parametrize(
    ("role", "code"), [("Viewer", Code.FABRIC_FORBIDDEN), ("None", Code.FABRIC_NOT_FOUND)], ids=["viewer", "none"]
)
def test_a_missing_role_is_named(fabric: Fabric, open_client: OpenClient, role: str, code: Code) -> None:
    fabric.service.add("orders")
    fabric.service.role = role
    with open_client() as client, pytest.raises(MirrorgateError) as raised:
        client.start()
    assert raised.value.code is code


def test_names_and_ids_and_names_with_the_items_type_are_the_same(fabric: Fabric, open_client: OpenClient) -> None:
    database = fabric.service.add("orders")
    for workspace, name in [("sales WORKSPACE", "orders.MirroredDatabase"), (WORKSPACE_ID, database.id)]:
        with open_client(workspace, name) as client:
            assert client.database().id == database.id


def test_a_workspace_and_a_database_may_have_the_same_name(fabric: Fabric, open_client: OpenClient) -> None:
    database = fabric.service.add("Sales workspace")
    with open_client("Sales workspace", "Sales workspace") as client:
        assert (client.workspace_id, client.database_id) == (WORKSPACE_ID, database.id)


def test_create_makes_an_open_mirroring_database_with_its_landing_zone(fabric: Fabric, open_client: OpenClient) -> None:
    with open_client() as client:
        made, is_new = client.create("orders", Definition(default_schema="sales", retention_days=3))
        assert client.definition() == Definition("GenericMirror", "sales", 3)
    assert is_new
    host = "onelake.dfs.fabric.microsoft.com"
    assert made.landing_zone == f"abfss://{WORKSPACE_ID}@{host}/{made.id}/Files/LandingZone"
    assert [part["path"] for part in fabric.service.databases[made.id].parts] == ["mirroring.json", ".platform"]


def test_create_of_an_existing_name_returns_it(fabric: Fabric, open_client: OpenClient) -> None:
    existing = fabric.service.add("Orders")
    with open_client() as client:
        made, is_new = client.create("orders", Definition())
    assert (made.id, is_new) == (existing.id, False)


@pytest.mark.parametrize("lost", [Answer(500, {}, lost=True), Answer(202, {}, lost=True)])
def test_a_lost_answer_to_create_makes_one_database(fabric: Fabric, open_client: OpenClient, lost: Answer) -> None:
    # the list is asked for by the same last part of the path, so the first plan is for it
    fabric.service.plan("mirroredDatabases", Answer(200, {"value": []}), lost)
    with open_client() as client:
        _, is_new = client.create("orders", Definition())
    assert is_new
    assert len(fabric.service.databases) == 1


def test_a_lost_answer_to_delete_is_no_error(fabric: Fabric, open_client: OpenClient) -> None:
    fabric.service.plan(fabric.service.add("orders").id, Answer(200, {}, lost=True))
    with open_client() as client:
        client.delete()
    assert not fabric.service.databases


def test_a_long_running_operation_is_followed_with_progress(
    fabric: Fabric, open_client: OpenClient, clock: FastClock
) -> None:
    fabric.service.slow_operations = 3
    told: list[tuple[str, int | None]] = []
    with open_client() as client:
        _, is_new = client.create("orders", Definition(), progress=lambda *said: told.append(said))
    assert is_new
    assert told == [("Running", 33), ("Running", 50), ("Succeeded", 100)]
    assert clock.slept == [20.0, 20.0, 20.0]


def test_a_failed_operation_has_fabrics_own_words(fabric: Fabric, open_client: OpenClient) -> None:
    fabric.service.add("orders")
    fabric.service.slow_operations = 1
    fabric.service.operation_error = {"errorCode": "CapacityNotActive", "message": "The capacity is not active."}
    with open_client() as client, pytest.raises(FabricRejected) as rejected:
        client.definition()
    assert "failed: CapacityNotActive: The capacity is not active." in rejected.value.detail


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        ("Initializing", DatabaseState.INITIALIZING),
        ("Initialized", DatabaseState.INITIALIZED),
        ("Starting", DatabaseState.STARTING),
        ("Running", DatabaseState.RUNNING),
        ("Running with warning", DatabaseState.RUNNING_WITH_WARNING),
        ("RunningWithWarning", DatabaseState.RUNNING_WITH_WARNING),
        ("Stopping", DatabaseState.STOPPING),
        ("Stopped", DatabaseState.STOPPED),
        ("Paused", DatabaseState.PAUSED),
        ("Failed", DatabaseState.FAILED),
        ("Resuming", DatabaseState.UNKNOWN),
        ("", DatabaseState.UNKNOWN),
    ],
)
def test_every_documented_state_is_known_and_any_other_keeps_its_word(raw: str, state: DatabaseState) -> None:
    assert parse_database_status({"status": raw}) == DatabaseStatus(state, raw)


def test_a_table_is_read_with_its_counts_time_and_fault() -> None:
    fault = {"errorCode": "UserErrorBadFile", "message": "The file is bad."}
    assert parse_table(table("orders", "Failed", rows=7, schema="sales", error=fault)) == TableMirroring(
        "sales",
        "orders",
        "Failed",
        7,
        1400,
        datetime(2026, 11, 22, 5, 7, 11, 66336, UTC),
        FabricFault("UserErrorBadFile", "The file is bad.", "user"),
    )


def test_a_table_without_metrics_has_none() -> None:
    found = parse_table({"sourceTableName": "t", "status": "Initialized", "sourceObjectType": "Table", "metrics": None})
    assert (found.schema, found.processed_rows, found.last_sync, found.error) == ("", None, None, None)


def test_the_year_one_is_no_time() -> None:
    assert parse_table({"metrics": {"lastSyncDateTime": "0001-01-01T00:00:00"}}).last_sync is None


@pytest.mark.parametrize(
    ("error", "whose"),
    [
        ({"errorCode": "UserErrorX"}, "user"),
        ({"errorCode": "SchemaMergeFailure"}, "user"),
        ({"errorCode": "Anything", "errorType": "UserError"}, "user"),
        ({"errorCode": "InternalServerError"}, "system"),
        ({"errorCode": "SystemErrorX"}, "system"),
        ({"errorCode": "Other"}, "unknown"),
        ({"errorCode": "UnknownError", "moreDetails": [{"errorCode": "UserErrorY", "message": "m"}]}, "user"),
    ],
)
def test_a_fault_tells_whose_it_is_as_far_as_the_answer_shows(error: dict[str, object], whose: str) -> None:
    fault = parse_table({"sourceTableName": "t", "error": error}).error
    assert fault is not None
    assert parse_database_status({"status": "Failed", "error": error}).error == fault
    assert fault.whose == whose


def test_the_client_reads_states_and_all_pages_of_tables(fabric: Fabric, open_client: OpenClient) -> None:
    database = fabric.service.add("orders")
    database.tables = [table(f"t{number}") for number in range(7)]
    fabric.service.page_size = 3
    with open_client() as client:
        assert client.database_status() == DatabaseStatus(DatabaseState.RUNNING, "Running")
        assert [one.name for one in client.tables_status()] == [f"t{number}" for number in range(7)]


@pytest.mark.parametrize("status", ["Paused", "Stopped", "Initialized"])
def test_a_database_that_does_not_run_has_no_table_states(fabric: Fabric, open_client: OpenClient, status: str) -> None:
    fabric.service.add("orders", status)
    with open_client() as client:
        assert client.tables_status() == []
        assert client.database_status().raw == status


def test_a_failure_of_the_database_is_shown(fabric: Fabric, open_client: OpenClient) -> None:
    database = fabric.service.add("orders", "Failed")
    database.error = {"errorCode": "InternalError", "message": "A part failed."}
    with open_client() as client:
        status = client.database_status()
    assert (status.state, str(status.error)) == (DatabaseState.FAILED, "InternalError: A part failed.")
