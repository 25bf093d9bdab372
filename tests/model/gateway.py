"""The gateways that the model runs against: the whole `mirrorgate up`, or an API and a drain in this process."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
from deltalake import DeltaTable
from pydantic import SecretStr

from app.domain.mirror_report import MirrorState
from app.landing.local_zone import LocalZone
from app.mirror.table_mirror import MirrorLimits, advance_table
from app.mirror.target import MirrorTarget
from app.published.table_files import PublishedTable
from app.settings import Settings
from demo.gateway import admin_key, running_gateway
from demo.landing_reader import table_folder
from demo.mirror_reader import open_mirrored
from tests.api.calls import ADMIN_KEY
from tests.model.fold import Difference
from tests.model.tables import MASK_SECRET
from tests.support.http.server import served
from tests.support.postgres.databases import private_database
from tests.support.small_drain import publish_pending, small_drain

PATIENCE: Final = 300.0
BUSY: Final = (429, 503)


@dataclass
class Gateway:
    """A running gateway.

    `publish` does what its drain has not done by itself; `mirror` applies the files of a table to its Delta table.
    """

    url: str
    key: str
    zone: Path
    publish: Callable[[], None]
    mirror: Callable[[str], DeltaTable]
    rebuilds: bool = True
    stop: threading.Event = field(default_factory=threading.Event)
    _http: threading.local = field(default_factory=threading.local)

    def call(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """Return an answer that is not about a lack of room. Raises Difference if there is none in time."""
        client = getattr(self._http, "client", None)
        if client is None:
            headers = {"Authorization": f"Bearer {self.key}"}
            client = self._http.client = httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=120)
        deadline = time.monotonic() + PATIENCE
        while True:
            answer: httpx.Response = client.request(method, path, **arguments)
            if answer.status_code not in BUSY or time.monotonic() > deadline:
                return answer
            self.publish()
            self.stop.wait(0.2)

    def register(self, table: str, columns: Mapping[str, str], keys: Sequence[str] = ("id",), **options: Any) -> None:
        """Register a new table; key columns are required, the others nullable."""
        declared = [{"name": name, "type": of, "nullable": name not in keys} for name, of in columns.items()]
        body = {"key_columns": [*keys], "columns": declared, "options": options}
        answer = self.call("PUT", f"/v1/tables/{table}", json=body)
        assert answer.status_code == 201, answer.text

    def status(self, table: str) -> dict[str, Any]:
        status: dict[str, Any] = self.call("GET", f"/v1/tables/{table}").json()
        return status

    def until_published(self, table: str) -> None:
        """Publish until nothing of a table is pending. Raises Difference if that takes too long."""
        self.until(lambda: self.status(table)["lag"]["batches"] == 0, f"{table} is published")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Publish until it is true. Raises Difference if it does not become true in time."""
        deadline, pause = time.monotonic() + PATIENCE, 0.02
        while not condition():
            if time.monotonic() > deadline:
                raise Difference(f"did not happen within {PATIENCE:.0f} s: {what}")
            if self.stop.is_set():
                raise KeyboardInterrupt
            self.publish()
            self.stop.wait(pause)
            pause = min(0.5, pause * 2)

    def close(self) -> None:
        """Close the connection of this thread."""
        if (client := getattr(self._http, "client", None)) is not None:
            client.close()
            del self._http.client


@contextmanager
def whole_gateway(place: Path) -> Iterator[Gateway]:
    """Run `mirrorgate up` in the folder."""
    os.environ["MIRRORGATE_MASK_SECRET"] = MASK_SECRET
    zone = place / "landing-zone"
    with running_gateway(place) as url:
        yield Gateway(url, admin_key(place), zone, lambda: None, Mirror(zone, place / "mirror").advance)


@contextmanager
def small_gateway(database_url: str, place: Path) -> Iterator[Gateway]:
    """Run the API in a thread, and a drain that builds its files itself when it is asked to publish."""
    zone, target, turn = place / "landing-zone", place / "mirror", threading.Lock()
    settings = Settings(
        database_url=SecretStr(database_url), admin_key=SecretStr(ADMIN_KEY), mask_secret=SecretStr(MASK_SECRET)
    )
    with (
        served(settings) as url,
        small_drain(database_url, zone, rows=2000) as drain,
    ):

        def publish() -> None:
            with turn:
                publish_pending(drain)

        yield Gateway(url, ADMIN_KEY, zone, publish, Mirror(zone, target).advance)


@contextmanager
def small_gateway_alone(place: Path) -> Iterator[Gateway]:
    """Run a small gateway with a Postgres of its own."""
    place.mkdir(parents=True)
    with private_database(place) as (url, _), small_gateway(url, place) as gateway:
        yield gateway


class Mirror:
    """Applies the files of single tables to Delta tables, in this process."""

    def __init__(self, zone: Path, target: Path) -> None:
        self._zone, self._target = zone, target

    def advance(self, name: str) -> DeltaTable:
        """Apply all files of a table. Raises Difference if the mirror stops."""
        folder = table_folder(self._zone, name).relative_to(self._zone)
        table, target = PublishedTable.at(str(folder)), MirrorTarget(str(self._target))
        while (report := advance_table(LocalZone(self._zone), target, table, MirrorLimits(max_files=5))).pending_files:
            if report.state is not MirrorState.BEHIND:
                raise Difference(f"the mirror of {name} is {report.state}: {report.code} {report.detail}")
        mirrored = open_mirrored(self._target, name)
        assert mirrored is not None
        return mirrored
