"""Publish one step of `mirrorgate certify` with a gateway of this machine, and stop the gateway.

Usage: mirrorgate certify --timeout 300 -- python examples/certify/publish.py
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from mirrorgate import GatewayClient, RejectedByGateway
from mirrorgate.parameters import Stage
from mirrorgate.stages import wait_until

TABLE: Final = "sales.orders"
PATH: Final = f"/v1/tables/{TABLE}"
SECONDS: Final = 240.0
ID: Final = {"name": "id", "type": "int64", "nullable": False}
COLUMNS: Final = [ID, {"name": "item", "type": "string"}]
WIDER: Final = [*COLUMNS, {"name": "note", "type": "string"}]
RETYPED: Final = [ID, {"name": "item", "type": "int64"}]
ROWS: Final[dict[str, list[list[dict[str, Any]]]]] = {
    "load": [[{"id": 1, "item": "a"}, {"id": 2, "item": "b"}], [{"id": 3, "item": "c"}]],
    "change": [[{"id": 2, "item": "B"}, {"id": 4, "item": "d"}, {"id": 1, "__op__": "delete"}]],
    "add_column": [[{"id": 5, "item": "e", "note": "new"}]],
    "change_type": [[{"id": 1, "item": 1}, {"id": 2, "item": 2}, {"id": 3, "item": 3}]],
}
"""The rows of each step, by request; each request becomes a file."""


def status(client: GatewayClient) -> dict[str, Any] | None:
    """Return what the gateway says of the table; None if there is none."""
    try:
        return dict(client.get("/v1/tables", table=TABLE)["tables"][0])
    except RejectedByGateway as error:
        if error.status == 404:
            return None
        raise


def drop(client: GatewayClient) -> None:
    """Drop the table, and wait until its folder is gone."""
    found = status(client)
    if found is not None and found["state"] != "dropped":
        if found["state"] != "dropping":
            client.delete(PATH, generation=found["generation"])
        give_up = time.monotonic() + SECONDS
        while (found := status(client)) is not None and found["state"] != "dropped":
            if time.monotonic() > give_up:
                sys.exit(f"not dropped: {found}")
            time.sleep(0.1)  # HTTP offers no notification


def publish(client: GatewayClient, step: str) -> None:
    """Post the rows of a step, and wait until they are in landing files. A repeat posts nothing twice."""
    dropped = Path(os.environ["MIRRORGATE_STATE"]) / "dropped"
    if step == "drop":
        drop(client)
        dropped.touch()
        return
    found = status(client)
    columns = {"add_column": WIDER, "change_type": RETYPED}.get(step, COLUMNS)
    if step == "change_type" and found is not None and found.get("generation") == 1:
        drop(client)
    if step != "change":
        client.put(PATH, {"columns": columns, "key_columns": ["id"]})
    run = "second" if dropped.exists() else "first"  # a key that was used before a drop stages nothing after it
    for number, rows in enumerate(ROWS[step]):
        body, key = json.dumps(rows).encode(), f"{run}-{step}-{number}"
        client.post_changes("rows", body, table=TABLE, parameters={"op": "upsert"}, key=key)
        wait_until(client, TABLE, Stage.PUBLISHED, timeout=SECONDS)


def main() -> None:
    """Start the gateway, publish, and stop it."""
    step, folder = os.environ["MIRRORGATE_STEP"], Path(os.environ["MIRRORGATE_STATE"]) / "gateway"
    own = ("MIRRORGATE_STEP", "MIRRORGATE_STATE", "MIRRORGATE_EXERCISE", "MIRRORGATE_TOKEN")
    variables = {name: value for name, value in os.environ.items() if name not in own}
    variables.setdefault("MIRRORGATE_MAX_DELAY_SECONDS", "0")  # each request becomes a file at once
    variables.setdefault("MIRRORGATE_FABRIC_POLL_SECONDS", "1")  # a dropped table waits until Fabric has dropped it
    command = [sys.executable, "-m", "mirrorgate.cli", "up", "--data-dir", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables) as gateway:
        try:
            assert gateway.stdout is not None
            if not gateway.stdout.readline().startswith("ready "):
                sys.exit("the gateway did not start")
            with GatewayClient.find(None, None, folder) as client:
                publish(client, step)
        finally:
            gateway.terminate()


if __name__ == "__main__":
    main()
