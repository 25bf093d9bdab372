"""A pytest fixture with Fabric open mirroring: add `pytest_plugins = ["mirrorgate.testing"]` to a conftest.

The first test that uses the emulator starts its process. The end of the session stops it.
It requires `mirrorgate-zone` in the same environment.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import httpx
import pytest

_COMMAND = "from mirrorgate.cli.main import main; main()"
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class RunningEmulator:
    """Addresses of an emulator, and what a test does with it besides publishing."""

    onelake: str
    """Address of OneLake's DFS and blob service, for clients that take one."""
    fabric: str
    """Address of Fabric's REST API."""
    sql: str
    token: str
    """Bearer token for both services."""
    workspace: str
    database: str
    """Ids of the workspace and of the mirrored database, which is running."""
    landing_zone: str
    """`abfss://…` of the database's landing zone."""
    certificate: str
    """File with the authority that signed the emulator's certificate."""
    directory: str
    environment: dict[str, str]
    """Variables with which a program for Fabric runs against the emulator unchanged."""

    def set_faults(self, **faults: float | bool) -> None:
        """Let requests fail until the test ends, such as `throttle=0.1`; without arguments, none."""
        self._ask("PUT", "/_emulator/faults", json=faults)

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Run one SELECT over the mirrored tables. Raise ValueError with the reason for SQL that is not valid."""
        answer = self._ask("POST", "/sql", content=sql)
        return [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]

    def wait_for(self, sql: str, is_reached: Callable[[list[dict[str, Any]]], bool], seconds: float = 30.0) -> None:
        """Wait until the rows of a query are as they should be. Raise TimeoutError with the last ones."""
        give_up = time.monotonic() + seconds
        while True:
            try:
                rows = self.query(sql)
                if is_reached(rows):
                    return
                found = str(rows)
            except ValueError as error:  # the table is not there yet
                found = str(error)
            if time.monotonic() > give_up:
                raise TimeoutError(f"{sql}: after {seconds:g} s it is {found}")
            time.sleep(_PAUSE_SECONDS)  # SQL over HTTP offers no notification

    def _ask(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        address = self.onelake.replace("https:", "http:")
        with httpx.Client(trust_env=False, timeout=60.0) as client:
            answer = client.request(method, address + path, **content)
        found: dict[str, Any] = answer.json()
        if not answer.is_success:
            raise ValueError(found["message"])
        return found


@pytest.fixture(scope="session")
def _emulator_process() -> Iterator[RunningEmulator]:
    try:
        version("mirrorgate-zone")
    except PackageNotFoundError:
        pytest.fail("the fixture mirrorgate_emulator needs: pip install mirrorgate-zone", pytrace=False)
    command = [sys.executable, "-c", _COMMAND, "emulator", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                pytest.fail(f"`mirrorgate emulator` ended with status {process.wait()}", pytrace=False)
            started = json.loads(line)
            yield RunningEmulator(**{field.name: started[field.name] for field in fields(RunningEmulator)})
        finally:
            process.terminate()


@pytest.fixture
def mirrorgate_emulator(_emulator_process: RunningEmulator) -> Iterator[RunningEmulator]:
    """Fabric open mirroring on this machine, without faults at the beginning of each test."""
    yield _emulator_process
    _emulator_process.set_faults()
