"""The bridge of object storage in this process, against the real API: run it, and read what it said."""

import io
import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from mirrorgate.file_paths import PathTemplate
from mirrorgate.object_store import open_store
from mirrorgate_bridge.log import BridgeLog
from mirrorgate_bridge.objects.engine import run
from mirrorgate_bridge.objects.settings import BatchSettings, ObjectFormat, ObjectsSettings, SourceSettings
from mirrorgate_bridge.objects.table import BridgeStatus, TableStatus
from mirrorgate_bridge.settings_file import GatewaySettings, HealthSettings, LogSettings, StopSettings
from tests.api.calls import ADMIN_KEY


@dataclass
class Bridge:
    """Runs of one bridge, each as a new process would: only the gateway remembers."""

    gateway_url: str
    source: SourceSettings
    name: str = "lake"
    key: str = ADMIN_KEY
    batch: BatchSettings = field(default_factory=BatchSettings)
    status: BridgeStatus = field(default_factory=BridgeStatus)
    stop: threading.Event = field(default_factory=threading.Event)
    lines: io.StringIO = field(default_factory=io.StringIO)

    @property
    def settings(self) -> ObjectsSettings:
        return ObjectsSettings(
            name=self.name,
            gateway=GatewaySettings(url=self.gateway_url, key=self.key, requests=4),
            sources=(self.source,),
            batch=self.batch,
            poll=0.02,
            recheck=0.05,
            stop=StopSettings(within=5, retry_after=0.05),
            health=HealthSettings(port=0),
            log=LogSettings(format="json", repeat=0),
        )

    def run(self, *, once: bool = True) -> dict[str, TableStatus]:
        """Run until nothing is left, or until `stop` is set; return the tables by name."""
        self.status = BridgeStatus()
        settings = self.settings
        stores = {self.source.name: open_store(self.source.url, self.source.options)}
        with settings.gateway.client() as client:
            run(settings, stores, client, BridgeLog(settings.log, self.lines), self.status, self.stop, once=once)
        return {table.table: table for table in self.status.tables}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run in a thread while the block runs, then stop as SIGTERM does."""
        self.stop = threading.Event()
        failures: list[Exception] = []

        def act() -> None:
            try:
                self.run(once=False)
            except Exception as error:  # noqa: BLE001  # the test sees it
                failures.append(error)

        thread = threading.Thread(target=act)
        thread.start()
        try:
            yield
        finally:
            self.stop.set()
            thread.join(30)
            self.stop = threading.Event()
        if failures:
            raise failures[0]

    def waiting(self, table: str) -> int:
        """Return how many objects of a table wait."""
        return sum(one.waiting_objects for one in self.status.snapshot() if one.table == table)

    def done(self, table: str) -> int:
        """Return how many objects of a table are read."""
        return sum(one.objects for one in self.status.snapshot() if one.table == table)

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the lines of the log about an event."""
        found = [json.loads(line) for line in self.lines.getvalue().splitlines()]
        return [line for line in found if line["event"] == name]

    def changed(self, **changes: Any) -> "Bridge":
        """Return the same bridge with other settings of its source."""
        return replace(self, source=self.source.model_copy(update=changes), lines=io.StringIO())


def bridge_of(gateway_url: str, url: str | Path, source_format: str, *template: str, **settings: Any) -> Bridge:
    """Return a bridge that reads one source."""
    given = {"settle": 0.0} if "done_marker" not in settings else {}
    templates = tuple(PathTemplate.parse(text) for text in template)
    source = SourceSettings(
        url=str(url), name="in", format=ObjectFormat(source_format), table_from_path=templates, **given, **settings
    )
    return Bridge(gateway_url, source)


def write_more_at_the_end(monkeypatch: pytest.MonkeyPatch, file: Path, more: bytes) -> None:
    """Let a writer add to a file right after its end was read, once."""
    read, left = os.read, [more]

    def reading(descriptor: int, size: int) -> bytes:
        block = read(descriptor, size)
        if not block and left and os.path.samestat(os.fstat(descriptor), file.stat()):
            with file.open("ab") as stream:
                stream.write(left.pop())
        return block

    monkeypatch.setattr("mirrorgate.folder.os.read", reading)


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
