"""Publish with pyfabric, or operate a mirrored database with msfabricpysdkcore, as against Fabric.

`python fabric_clients.py publish|operate` runs with an interpreter that has both, without the packages of this
repository. It reads a JSON object from standard input; its answer is the last line of standard output.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

PATIENCE_SECONDS = 60


def publish(given: dict[str, Any]) -> dict[str, Any]:
    """Create the mirrored database `database`, and publish `batches`: schema, table, mode and rows of each."""
    from pyfabric.client.auth import FabricCredential
    from pyfabric.client.http import FabricClient
    from pyfabric.data.open_mirror import OpenMirrorClient
    from pyfabric.items import mirrored_database

    credential, workspace = FabricCredential(), given["workspace"]
    client = FabricClient(credential)
    item = mirrored_database.create_mirrored_database(client, workspace, display_name=given["database"])["id"]
    repeated(lambda: mirrored_database.start_mirroring(client, workspace, item))
    mirrored_database.wait_for_running(client, workspace, item, timeout_s=PATIENCE_SECONDS)
    mirror = OpenMirrorClient(credential, workspace, item)
    for schema, table in given["tables"]:
        mirror.ensure_table(table, schema=schema, key_columns=["id"])
    columns = {name: getattr(pa, kind)() for name, kind in given["columns"].items()}
    files = []
    for schema, table, mode, rows in given["batches"]:
        content = pa.Table.from_pylist(rows, pa.schema(columns))
        files.append(mirror.write_rows(table, content, schema=schema, mode=mode))
    wanted = given["rows"]

    def processed() -> dict[str, int]:
        tables = mirrored_database.get_tables_mirroring_status(client, workspace, item)["data"]
        found = {entry["sourceTableName"]: entry["metrics"]["processedRows"] for entry in tables}
        assert found == wanted, f"processed {found} of {wanted}"
        return found

    return {"database": item, "files": files, "processed": repeated(processed)}


def operate(given: dict[str, Any]) -> dict[str, Any]:
    """Create a mirrored database with the definition of the first one, start, stop and delete it."""
    from azure.identity import DefaultAzureCredential
    from msfabricpysdkcore import FabricClientCore

    client = FabricClientCore()
    client.auth.auth = DefaultAzureCredential()  # it signs in with the Azure CLI or a secret, which is not under test
    workspace = client.get_workspace_by_name(given["workspace_name"]).id
    definition = client.get_mirrored_database_definition(workspace, given["database"])["definition"]
    made = client.create_mirrored_database(workspace, "operated", definition=definition)
    again = client.get_mirrored_database_definition(workspace, made.id)["definition"]
    states = []

    def reached(state: str) -> None:
        found = client.get_mirroring_status(workspace, made.id)["status"]
        assert found == state, f"{found}, not {state}"
        states.append(state)

    repeated(lambda: client.start_mirroring(workspace, made.id))
    repeated(lambda: reached("Running"))
    tables = client.get_tables_mirroring_status(workspace, made.id)["data"]
    client.stop_mirroring(workspace, made.id)
    repeated(lambda: reached("Stopped"))
    listed = [database.display_name for database in client.list_mirrored_databases(workspace)]
    client.delete_mirrored_database(workspace, made.id)
    left = [database.display_name for database in client.list_mirrored_databases(workspace)]
    same = definition == again
    return {"workspace": workspace, "same": same, "states": states, "tables": tables, "listed": listed, "left": left}


def repeated(call: Callable[[], Any]) -> Any:
    """Call until it succeeds: a new database is initialized first, and rows are processed later."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return call()
        except Exception:  # each SDK has its own errors; the last one is raised
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)  # the REST API offers no notification


if __name__ == "__main__":
    answer = {"publish": publish, "operate": operate}[sys.argv[1]](json.load(sys.stdin))
    sys.stdout.write(f"\n{json.dumps(answer)}\n")
