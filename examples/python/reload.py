"""Make a table equal to a CSV file: an export of a spreadsheet, or of a source that has no change data capture.

The program sends the whole file as a load session. The gateway then deletes the rows that the file no longer has. What
other programs send for the table meanwhile is not overwritten. If the program is killed, run it again: a file beside
the CSV file names the load, and all rows are sent again in it.

Usage: reload.py FILE TABLE KEY_COLUMN

The first line of the file has the names of the columns; the table is registered with texts. MIRRORGATE_URL is the
address of the gateway, MIRRORGATE_API_KEY a key with the rights `ingest` and `register`.
"""

import csv
import os
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import httpx

RETRIED_STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504})
"""The gateway cannot take the request now, or may have taken it."""

MAX_ATTEMPTS: Final = 10
ROWS_PER_REQUEST: Final = 5_000


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the gateway that `client` calls."""

    client: httpx.Client
    name: str

    def register(self, columns: list[str], key_column: str) -> None:
        """Register the table with text columns. It keeps its rows in the gateway, or no load could be compared."""
        declared = [{"name": name, "type": "string", "nullable": name != key_column} for name in columns]
        wanted = {"columns": declared, "key_columns": [key_column], "options": {"row_images": "on"}}
        self._send("PUT", f"/v1/tables/{self.name}", json=wanted)

    def begin(self, load: str) -> bool:
        """Begin a load that has all rows of the source. A repeat returns False if the load takes no more rows."""
        status = self._send("POST", f"/v1/tables/{self.name}/loads", json={"mode": "full", "load": load})
        return bool(status["state"] == "open")

    def is_unfinished(self, load: str) -> bool:
        """Return True if a load takes rows, or is completed in part."""
        loads = self._send("GET", f"/v1/tables/{self.name}/loads")["loads"]
        return any(found["load"] == load and found["state"] in ("open", "completing") for found in loads)

    def abort(self, load: str) -> None:
        """End a load without deletes."""
        self._send("DELETE", f"/v1/tables/{self.name}/loads/{load}")

    def post(self, load: str, number: int, rows: list[dict[str, Any]]) -> None:
        """Add rows to the load. They are durable then. A repeat has the same key and lands once."""
        headers = {"Mirrorgate-Load": load, "Idempotency-Key": f"{load}-{number}"}
        self._send("POST", "/v1/changes/rows", params={"table": self.name}, headers=headers, json=rows)

    def complete(self, load: str) -> dict[str, Any]:
        """Delete the rows that the load did not have; the gateway answers 202 while some are left."""
        while (status := self._send("POST", f"/v1/tables/{self.name}/loads/{load}/complete"))["state"] != "completed":
            print(f"{status['deletes']} rows deleted so far", file=sys.stderr)
        return status

    def _send(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        request = self.client.build_request(method, path, **arguments)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                response = self.client.send(request)
            except httpx.TransportError:
                if attempt == MAX_ATTEMPTS:
                    raise
            else:
                if response.status_code not in RETRIED_STATUSES or attempt == MAX_ATTEMPTS:
                    if response.is_error:  # names each wrong row by its index, with the code and the remedy
                        raise RuntimeError(f"{method} {path}: {response.status_code} {response.text}")
                    return dict(response.json())
            time.sleep(min(2**attempt / 10, 30.0))  # back off before the next attempt
        raise AssertionError


def parts(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in lists of a size that suits a request."""
    while part := [*islice(rows, ROWS_PER_REQUEST)]:
        yield part


def reload(table: Table, file: Path, key_column: str) -> dict[str, Any]:
    """Send all rows of the file in one load, and complete it.

    A file that changes while it is loaded would mix two states of the source: write a new one, then rename it.
    """
    with file.open(encoding="utf-8-sig", newline="") as text:  # Excel begins a CSV file with a byte order mark
        reader = csv.DictReader(text)
        requests = parts(reader)
        first = next(requests, None)
        if first is None:
            raise RuntimeError(f"{file} has no rows: loading it would delete every row of the table")
        table.register([*(reader.fieldnames or ())], key_column)
        state = file.with_name(f"{file.name}.load")
        load = unfinished_load(table, state, file) or new_load(state, file)
        if table.begin(load):
            for number, rows in enumerate(chain([first], requests), 1):
                table.post(load, number, rows)
    status = table.complete(load)
    state.unlink()
    return status


def unfinished_load(table: Table, state: Path, file: Path) -> str | None:
    """Return the load that an earlier run of this file left open. One of other content must not count: abort it."""
    if not state.exists():
        return None
    load, modified = state.read_text().split()
    if not table.is_unfinished(load):
        return None
    if modified == str(file.stat().st_mtime_ns):
        return load
    table.abort(load)
    return None


def new_load(state: Path, file: Path) -> str:
    """Return the id of a new load, which is on disk before the load begins."""
    load = str(uuid.uuid4())
    state.write_text(f"{load} {file.stat().st_mtime_ns}")
    return load


def main() -> None:
    """Load the file that is named on the command line."""
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    file, name, key_column = sys.argv[1:]
    headers = {"Authorization": f"Bearer {os.environ['MIRRORGATE_API_KEY']}"}
    with httpx.Client(base_url=os.environ["MIRRORGATE_URL"], headers=headers, timeout=60.0) as client:
        status = reload(Table(client, name), Path(file), key_column)
    print(f"{status['rows']} rows loaded, {status['deletes']} deleted")


if __name__ == "__main__":
    main()
