"""States are read as Fabric writes them, and unknown ones keep their word."""

from datetime import UTC, datetime

import pytest

from app.domain.fabric import parse_database_status, parse_table
from app.fabric import DatabaseState, DatabaseStatus, FabricFault, TableMirroring
from mirrorgate_zone.emulator.fabric_api import table
from tests.support.fabric.endpoint import Fabric
from tests.support.fabric.fixtures import OpenClient


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
