"""What lands becomes Delta tables by Fabric's rules, and the landing zone is cleaned up."""

import json
from pathlib import Path

import pytest

from mirrorgate_zone.emulator.emulator import running
from tests.emulator.conftest import Publisher
from tests.support.waiting import wait_until

ONE = "00000000000000000001.parquet"
TWO = "00000000000000000002.parquet"


def test_files_are_applied_in_order_by_their_markers(publisher: Publisher) -> None:
    publisher.declare("sales.schema/orders", "id")
    publisher.publish("sales.schema/orders", 1, 0, id=[1, 2, 3], v=["a", "b", "c"])
    publisher.publish("sales.schema/orders", 2, 4, id=[2, 4], v=["B", "d"])
    publisher.publish("sales.schema/orders", 3, 2, id=[1])
    publisher.wait_for_rows("SELECT * FROM sales.orders ORDER BY id", [[2, "B"], [3, "c"], [4, "d"]])


def test_applied_files_move_away_but_for_the_last(publisher: Publisher) -> None:
    publisher.declare("orders", "id")
    for number in (1, 2):
        publisher.publish("orders", number, 0, id=[number])
    wait_until(lambda: publisher.names("orders/_ProcessedFiles") == [ONE], within=30, what="file 1 is moved")
    assert publisher.names("orders") == [TWO, "_ProcessedFiles", "_metadata.json"]


def test_applied_files_are_deleted_after_the_retention(tmp_path: Path) -> None:
    with running(tmp_path, retention_seconds=0) as emulator:
        publisher = Publisher(emulator)
        publisher.declare("orders", "id")
        for number in (1, 2):
            publisher.publish("orders", number, 0, id=[number])
        wait_until(lambda: ONE not in publisher.names("orders"), within=30, what="file 1 is deleted")
        publisher.wait_for_rows("SELECT count(*) FROM orders", [[2]])


def test_the_states_of_tables_are_in_the_api_and_beside_the_landing_zone(publisher: Publisher) -> None:
    publisher.declare("orders", "id")
    publisher.publish("orders", 1, 0, id=[1, 2])
    wait_until(lambda: publisher.states().get("orders", {}).get("status") == "Replicating", within=30, what="a state")
    assert publisher.states()["orders"]["metrics"]["processedRows"] == 2
    monitoring = f"{publisher.emulator.addresses.database}/Files/Monitoring/tables.json"
    file = publisher.store.get_file_client(monitoring)

    def monitored() -> list[tuple[str, str, int]]:
        entries = json.loads(file.download_file().readall())["tables"]
        return [(entry["sourceTableName"], entry["status"], entry["processedRowCount"]) for entry in entries]

    wait_until(lambda: monitored() == [("orders", "Replicating", 2)], within=30, what="tables.json has the state")
    publisher.drop("orders")
    wait_until(lambda: monitored() == [], within=30, what="tables.json no longer has the table")


def test_a_table_that_cannot_be_applied_fails_alone_with_fabrics_word(publisher: Publisher) -> None:
    publisher.publish("bare", 1, 0, id=[1])
    publisher.declare("changed", "id")
    publisher.publish("changed", 1, 0, id=[1])
    publisher.publish("changed", 2, 0, id=["text"])
    publisher.mirror_one_row()
    wait_until(lambda: "error" in publisher.states().get("changed", {}), within=30, what="the failure is shown")
    errors = {name: state.get("error", {}).get("errorCode") for name, state in publisher.states().items()}
    assert errors == {"bare": "InvalidMetadata", "changed": "SchemaMergeFailure", "orders": None}


def test_of_two_folders_of_one_table_the_second_fails(publisher: Publisher) -> None:
    for folder, number in (("dbo.schema/orders", 1), ("orders", 2)):
        publisher.declare(folder, "id")
        publisher.publish(folder, 1, 0, id=[number])
    publisher.wait_for_rows("SELECT * FROM orders", [[1]])
    wait_until(lambda: "error" in publisher.states().get("orders", {}), within=30, what="the failure is shown")
    detail = publisher.states()["orders"]["error"]["message"]
    assert detail.startswith("the folders dbo.schema/orders and orders are one table, dbo.orders: ")


def test_a_gap_blocks_the_files_after_it_without_an_error(publisher: Publisher) -> None:
    publisher.declare("orders", "id")
    publisher.publish("orders", 1, 0, id=[1])
    publisher.publish("orders", 3, 0, id=[3])
    publisher.wait_for_rows("SELECT * FROM orders", [[1]])
    assert publisher.states()["orders"]["status"] == "Replicating"
    publisher.publish("orders", 2, 0, id=[2])
    publisher.wait_for_rows("SELECT * FROM orders ORDER BY id", [[1], [2], [3]])


def test_a_table_disappears_with_its_folder_and_begins_at_file_1(publisher: Publisher) -> None:
    publisher.mirror_one_row()
    publisher.drop("orders")
    wait_until(lambda: publisher.query("SELECT * FROM orders") == [["mirror_missing"]], within=30, what="it is gone")
    publisher.declare("orders", "id")
    publisher.publish("orders", 1, 0, id=["other"])
    publisher.wait_for_rows("SELECT * FROM orders", [["other"]])


def test_a_stopped_database_applies_nothing_and_a_start_begins_anew(publisher: Publisher) -> None:
    publisher.mirror_one_row()
    publisher.call("POST", "stopMirroring")
    database = publisher.emulator.service.databases[publisher.emulator.addresses.database]
    wait_until(lambda: database.status == "Stopped", within=30, what="it is stopped")
    publisher.publish("orders", 2, 0, id=[2])
    publisher.call("POST", "startMirroring")
    publisher.wait_for_rows("SELECT * FROM orders ORDER BY id", [[1], [2]])
    assert publisher.states()["orders"]["metrics"]["processedRows"] == 2


@pytest.mark.parametrize("name", ["_hidden", "_scratchPad"])
def test_hidden_folders_are_no_tables(publisher: Publisher, name: str) -> None:
    publisher.publish(name, 1, 0, id=[1])
    publisher.mirror_one_row()
    assert publisher.states().keys() == {"orders"}


def test_a_folder_keeps_databases_and_tables_for_the_next_start(tmp_path: Path) -> None:
    with running(tmp_path) as emulator:
        first = Publisher(emulator)
        first.mirror_one_row()
        created = _create(first, "second")
    with running(tmp_path) as emulator:
        again = Publisher(emulator)
        again.publish("orders", 2, 0, id=[2])
        again.wait_for_rows("SELECT * FROM orders ORDER BY id", [[1], [2]])
        assert [*emulator.service.databases] == [first.emulator.addresses.database, created]


def test_a_start_without_a_database_creates_the_first_one_again(tmp_path: Path) -> None:
    for _ in range(2):
        with running(tmp_path) as emulator:
            [first] = emulator.service.databases
            assert first == emulator.addresses.database
            path = f"/v1/workspaces/{emulator.addresses.workspace}/mirroredDatabases/{first}"
            Publisher(emulator).call("DELETE", path).raise_for_status()


def test_a_deleted_database_takes_its_files_with_it(publisher: Publisher) -> None:
    created = _create(publisher, "second")
    folder = publisher.emulator.onelake.tree.root / created
    assert (folder / "Files" / "LandingZone").is_dir()
    publisher.call("DELETE", f"/v1/workspaces/{publisher.emulator.addresses.workspace}/mirroredDatabases/{created}")
    assert not folder.exists()


def _create(publisher: Publisher, name: str) -> str:
    parts = publisher.emulator.service.databases[publisher.emulator.addresses.database].parts
    body = {"displayName": name, "definition": {"parts": parts}}
    path = f"/v1/workspaces/{publisher.emulator.addresses.workspace}/mirroredDatabases"
    return str(publisher.call("POST", path, json=body).raise_for_status().json()["id"])
