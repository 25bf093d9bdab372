"""A careful publisher of files that are ready: one counter, one writer, hidden names, and a look before each file."""

import fcntl
import http.client
import json
import os
import sys
import time
import urllib.parse
from pathlib import Path

STEP, STATE = os.environ["MIRRORGATE_STEP"], Path(os.environ["MIRRORGATE_STATE"])
HOST = urllib.parse.urlsplit(os.environ["MIRRORGATE_STORAGE_ENDPOINT"]).netloc
WORKSPACE, DATABASE = os.environ["MIRRORGATE_FABRIC_WORKSPACE"], os.environ["MIRRORGATE_FABRIC_DATABASE"]
ZONE = f"/{WORKSPACE}/{DATABASE}/Files/LandingZone"


def call(method: str, path: str, query: str = "", body: bytes = b"", **headers: str) -> int:
    """Send a request until it has an answer that does not ask to come back. Return its status; 0: no answer."""
    while True:
        connection = http.client.HTTPConnection(HOST, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named |= {"Authorization": f"Bearer {os.environ['MIRRORGATE_TOKEN']}", "x-ms-version": "2023-11-03"}
        try:
            connection.request(method, f"{ZONE}/{path}{query}", body, {"Content-Length": str(len(body)), **named})
            answer = connection.getresponse()
            answer.read()
        except OSError:
            return 0
        if answer.status not in (401, 429, 500, 503):
            return answer.status
        time.sleep(float(answer.headers.get("Retry-After", 0)))  # the pause that the service asks for


def upload(path: str, content: bytes) -> None:
    while not (
        call("PUT", path, "?resource=file") == 201
        and call("PATCH", path, "?action=append&position=0", content) == 202
        and call("PATCH", path, f"?action=flush&position={len(content)}") == 200
    ):
        pass


def publish(number: int, content: bytes) -> None:
    final, hidden = f"orders/{number:020d}.parquet", f"orders/_next-{number}"
    if any(call("HEAD", path) == 200 for path in (final, final.replace("/", "/_ProcessedFiles/"))):
        return
    upload(hidden, content)
    headers = {"x_ms_rename_source": f"{ZONE}/{hidden}", "If_None_Match": "*"}
    while call("PUT", final, **headers) != 201 and call("HEAD", final) != 200:
        pass


def wait_until_dropped() -> None:
    """Ask Fabric until its list of tables is empty."""
    address = f"/v1/workspaces/{WORKSPACE}/mirroredDatabases/{DATABASE}/getTablesMirroringStatus"
    bearer = {"Authorization": f"Bearer {os.environ['MIRRORGATE_TOKEN']}"}
    while True:
        connection = http.client.HTTPConnection(HOST, timeout=30)
        connection.request("POST", address, headers=bearer)
        if json.loads(connection.getresponse().read())["data"] == []:
            return


def main() -> None:
    lock = (STATE / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    kept = STATE / "state.json"
    done, number = json.loads(kept.read_text()) if kept.exists() else ([], 0)
    if STEP == "drop":
        done, number = [], 0
        call("DELETE", "orders", "?recursive=true")
    elif STEP not in done:
        if STEP == "change_type":
            number = 0
            call("DELETE", "orders", "?recursive=true")
            wait_until_dropped()
        if number == 0:
            upload("orders/_metadata.json", b'{"keyColumns": ["id"]}')
        for file in sorted(Path(os.environ["FILES"]).glob(f"{STEP}-*")):
            number += 1
            publish(number, file.read_bytes())
        done.append(STEP)
    new = kept.with_suffix(".new")
    new.write_text(json.dumps([done, number]))
    new.replace(kept)


if __name__ == "__main__":
    try:
        main()
    except BlockingIOError:
        sys.exit("another publisher runs")
