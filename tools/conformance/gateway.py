"""A gateway of the run's own on the new landing zone, and what the run asks of it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from app.settings import PREFIX
from mirrorgate.http import GatewayClient
from tools.conformance.content import NewTable, Post
from tools.conformance.report import StepFailed

_INHERITED: Final = (f"{PREFIX}FABRIC_", f"{PREFIX}STORAGE_")
"""The settings that the gateway takes from this environment: how Fabric's API and OneLake are reached."""

_STOP_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.5
_PUBLISH_SECONDS: Final = 300.0
_DROP_SECONDS: Final = 900.0
"""A drop waits until Fabric no longer lists the table, at most 600 s by default."""


def until(check: Callable[[], str | None], seconds: float, pause: float = _PAUSE_SECONDS) -> None:
    """Repeat `check` until it returns None. Raise StepFailed with its last text after so many seconds."""
    deadline = time.monotonic() + seconds
    while (missing := check()) is not None:
        if time.monotonic() >= deadline:
            raise StepFailed(f"after {seconds:.0f} s: {missing}")
        time.sleep(pause)  # neither Fabric nor the gateway notifies of progress


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """The gateway, through its HTTP API."""

    client: GatewayClient

    def register(self, table: NewTable) -> None:
        """Register a table, or change it."""
        self.client.put(_path(table.name), table.body())

    def post(self, posts: Iterable[Post]) -> int:
        """Post rows, and return how many."""
        posted = 0
        for post in posts:
            body = json.dumps(post.rows).encode()
            self.client.post_changes("rows", body, table=post.table, parameters={"op": post.op})
            posted += len(post.rows)
        return posted

    def operate(self, table: str, operation: str, content: object = None) -> None:
        """Start an operation on the current generation of a table."""
        generation = self.status(table)["generation"]
        self.client.post(f"{_path(table)}/{operation}", content, generation=generation)

    def drop(self, table: str) -> None:
        """Start to drop a table."""
        self.client.delete(_path(table), generation=self.status(table)["generation"])

    def status(self, table: str) -> dict[str, Any]:
        """Return the status of one table."""
        found: dict[str, Any] = self.client.get(_path(table))
        return found

    def wait_published(self) -> int:
        """Wait until each table is active and has published what it accepted; return the number of tables."""
        until(self._unpublished, _DROP_SECONDS if self._is_dropping() else _PUBLISH_SECONDS)
        return len(self._tables())

    def fabric_state(self) -> str | None:
        """Return the word for the database's state that the gateway shows."""
        fabric = self.client.get("/v1/tables")["fabric"]
        return None if fabric is None else fabric["state"]

    def _tables(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.get("/v1/tables")["tables"]
        return found

    def _is_dropping(self) -> bool:
        return any(table["state"] == "dropping" for table in self._tables())

    def _unpublished(self) -> str | None:
        for table in self._tables():
            why = table["state_reason"] or (table["failing"] or {}).get("detail") or ""
            if table["state"] != "active" or table["lag"]["batches"] or not table["published"]["files"]:
                return f"{table['table']} is {table['state']}, {table['lag']['batches']} batches wait {why}".strip()
        return None


@contextmanager
def running_gateway(data_dir: Path, environment: Mapping[str, str]) -> Iterator[RunningGateway]:
    """Run `mirrorgate up` for the block. Raise StepFailed with the end of its log if it does not start.

    Its settings are `environment` and those of `_INHERITED`: an exported MIRRORGATE_DATABASE_URL is that of an
    operator's gateway, which the run must not touch.
    """
    command = [sys.executable, "-m", "mirrorgate.cli", "up", "--data-dir", str(data_dir), "--port", "0"]
    log = data_dir / "up.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env=_inherited() | dict(environment), start_new_session=True
        ) as up,
    ):
        try:
            assert up.stdout is not None
            word, _, url = up.stdout.readline().decode().strip().partition(" ")
            if word != "ready":
                ending = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
                raise StepFailed(f"the gateway did not start: {' '.join(ending)}")
            with GatewayClient.find(url, None, data_dir) as client:
                yield RunningGateway(client)
        finally:
            up.terminate()
            try:
                up.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                up.kill()


def _inherited() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if not name.startswith(PREFIX) or name.startswith(_INHERITED)
    }


def _path(table: str) -> str:
    return f"/v1/tables/{quote(table, safe='')}"
