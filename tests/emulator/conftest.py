"""An emulator in this process, and a publisher that writes with the Azure SDK."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirrorgate.testing import _emulator_process, mirrorgate_emulator
from mirrorgate_zone.emulator.emulator import TOKEN, Emulator, running
from tests.support.onelake.clients import FixedToken, file_system
from tests.support.waiting import wait_until

__all__ = ["_emulator_process", "mirrorgate_emulator"]


class Publisher:
    """Writes into the first database of an emulator, and reads what became of it."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator
        self.store = file_system(emulator.onelake, emulator.trust, credential=FixedToken(TOKEN), read_timeout=10)

    def put(self, path: str, content: bytes | str) -> None:
        self.store.get_file_client(f"{self.emulator.onelake.landing_zone}/{path}").upload_data(content, overwrite=True)

    def declare(self, table: str, *keys: str) -> None:
        self.put(f"{table}/_metadata.json", json.dumps({"keyColumns": keys}))

    def publish(self, table: str, number: int, marker: int, **columns: list[Any]) -> None:
        rows = len(next(iter(columns.values())))
        content = pa.table({**columns, "__rowMarker__": pa.array([marker] * rows, pa.int32())})
        buffer = io.BytesIO()
        pq.write_table(content, buffer)
        self.put(f"{table}/{number:020d}.parquet", buffer.getvalue())

    def drop(self, table: str) -> None:
        self.store.delete_directory(f"{self.emulator.onelake.landing_zone}/{table}")

    def call(self, method: str, path: str, **content: Any) -> httpx.Response:
        """Ask the REST API about the database, or the emulator itself."""
        database = (
            f"/v1/workspaces/{self.emulator.addresses.workspace}/mirroredDatabases/{self.emulator.addresses.database}"
        )
        target = path if path.startswith("/") else f"{database}/{path}"
        address = self.emulator.onelake.address.replace("https:", "http:")
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return httpx.request(method, address + target, headers=headers, trust_env=False, timeout=30, **content)

    def query(self, sql: str) -> list[list[Any]]:
        answer = self.call("POST", "/sql", content=sql)
        return answer.json()["rows"] if answer.is_success else [[answer.json()["errorCode"]]]

    def states(self) -> dict[str, dict[str, Any]]:
        answer = self.call("POST", "getTablesMirroringStatus")
        return {entry["sourceTableName"]: entry for entry in answer.json()["data"]}

    def wait_for_rows(self, sql: str, rows: list[list[Any]]) -> None:
        wait_until(lambda: self.query(sql) == rows, within=30, what=f"{sql} is {rows}")

    def mirror_one_row(self) -> None:
        """Publish the table `orders` with the row 1, and wait until it is mirrored."""
        self.declare("orders", "id")
        self.publish("orders", 1, 0, id=[1])
        self.wait_for_rows("SELECT * FROM orders", [[1]])

    def names(self, table: str) -> list[str]:
        return self.emulator.onelake.names(table)


@pytest.fixture
def publisher(tmp_path: Path) -> Iterator[Publisher]:
    with running(tmp_path / "fabric") as emulator:
        yield Publisher(emulator)
    assert not emulator.onelake.server.failures


def run_pytest(folder: Path, conftest: str, test: str) -> str:
    """Run one test module in a new project, and return what pytest prints."""
    for name, text in (("conftest.py", conftest), ("test_it.py", test), ("pytest.ini", "[pytest]\n")):
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return ended.stdout + ended.stderr
