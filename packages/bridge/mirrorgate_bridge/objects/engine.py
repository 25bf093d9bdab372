"""Run the tables of all sources: one thread for each source lists, and a bounded pool of threads sends.

Sources and tables are independent: a store that is unreachable holds up its tables only, a stopped table nothing else.
"""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice, takewhile
from typing import Final

from mirrorgate.errors import MirrorgateError, TemporarilyUnavailable
from mirrorgate.file_paths import PathTemplate, TablePath, first_match
from mirrorgate.folder import Found
from mirrorgate.http import GatewayClient
from mirrorgate.object_store import ObjectStore, without_folders
from mirrorgate.producer import Patience, durable_number
from mirrorgate_bridge.log import BridgeLog
from mirrorgate_bridge.objects.settings import ObjectsSettings, SourceSettings
from mirrorgate_bridge.objects.table import BridgeStatus, TableListing, TableReader, TableStatus

MAX_LISTED: Final = 10_000


@dataclass
class SourceCheck:
    """The contents of a source: objects by table, and an example of an object that belongs to none."""

    url: str
    tables: Counter[str] = field(default_factory=Counter)
    left_out: int = 0
    example: str | None = None
    is_partial: bool = False


def check_source(source: SourceSettings, store: ObjectStore) -> SourceCheck:
    """List a source. Raises Misconfigured `source_rejected` and TemporarilyUnavailable `source_unavailable`."""
    found = SourceCheck(store.url)
    listed = list(islice(store.objects(), MAX_LISTED + 1))
    found.is_partial = len(listed) > MAX_LISTED
    for item in without_folders(listed[:MAX_LISTED]):
        if item.key.endswith(_METADATA) or not source.names.holds_changes(item.key):
            continue
        path = first_match(source.table_from_path, item.key) if source.table_from_path else TablePath(source.table)
        if path is None:
            found.left_out += 1
            found.example = found.example or item.key
        else:
            found.tables[path.table or "(named by the messages)"] += 1
    return found


def check_gateway(settings: ObjectsSettings, client: GatewayClient) -> None:
    """Ask the gateway for a producer. Raises RejectedByGateway and TemporarilyUnavailable."""
    for source in settings.sources:
        durable_number(client, producer_name(settings.name, source.name, TablePath(source.table)))


MAX_PRODUCER_NAME: Final = 255
_VARIABLE: Final = re.compile(r"\{\w+\}|\*|…|\.\.\.")
_OF_TABLES: Final = frozenset({"{schema}", "{table}", "{mode}", "{op}"})
"""The placeholders of a template that tell tables and their producers apart."""
_GIVE_UP_SECONDS: Final = 120.0
"""Seconds for which `--once` waits for a store or a gateway that is unreachable."""
_METADATA: Final = ".dfm"


def producer_name(bridge: str, source: str, path: TablePath) -> str:
    """Return the producer of a table: `objects:lake/landing/sales.orders`. A long or foreign name ends with a hash."""
    table = "&".join([path.table or "*", *(f"{name}={value}" for name, value in path.parameters.items())])
    name = f"objects:{bridge}/{source}/{table}"
    if len(name) <= MAX_PRODUCER_NAME and all("!" <= character <= "~" for character in name):
        return name
    return f"objects:{bridge}/{source}/{sha256(table.encode()).hexdigest()[:32]}"[-MAX_PRODUCER_NAME:]


@dataclass
class SourceLoop:
    """Loop that lists one source repeatedly and hands what it finds to the pool."""

    settings: ObjectsSettings
    source: SourceSettings
    store: ObjectStore
    client: GatewayClient
    patience: Callable[[TableStatus], Patience]
    stop: threading.Event
    pool: ThreadPoolExecutor
    log: BridgeLog
    status: BridgeStatus
    clock: Callable[[], float] = time.monotonic
    tables: dict[str, TableReader] = field(default_factory=dict)
    _busy: dict[str, Future[None]] = field(default_factory=dict)
    _scopes: dict[str, set[str]] = field(default_factory=dict)
    """The tables that the objects below a prefix feed, as far as they were listed."""
    _unmatched: set[str] = field(default_factory=set)
    _last_complete: float | None = None

    def run(self, *, once: bool) -> None:
        """Send objects as they appear until `stop` is set; with `once`, return when nothing is left.

        Raises Misconfigured `source_rejected` if the first listing is rejected, and with `once` TemporarilyUnavailable
        for a store that remains away.
        """
        away_since: float | None = None
        has_listed = False
        while not self.stop.is_set():
            try:
                self._poll()
                has_listed, away_since = True, None
                self.status.sources.pop(self.source.name, None)
            except MirrorgateError as error:
                away_since = self.clock() if away_since is None else away_since
                if not has_listed and not isinstance(error, TemporarilyUnavailable):
                    raise
                if once and self.clock() - away_since >= _GIVE_UP_SECONDS:
                    raise
                self.status.sources[self.source.name] = error.detail
                self.log.warning(
                    "source_waits",
                    about=self.source.name,
                    source=self.source.name,
                    code=error.code,
                    detail=error.detail,
                )
            if once and away_since is None and self._is_finished():
                return
            self.stop.wait(self.settings.poll)

    def results(self) -> Iterator[Future[None]]:
        """Yield the work under way."""
        yield from list(self._busy.values())

    def _is_finished(self) -> bool:
        """Wait for the work under way; return whether no table has anything left."""
        wait(list(self._busy.values()))
        for future in self._busy.values():
            future.result()
        return not any(table.has_more for table in self.tables.values())

    def _poll(self) -> None:
        now = self.clock()
        is_complete = self._last_complete is None or now - self._last_complete >= self.settings.recheck
        for prefix in self._prefixes():
            self._list(prefix, is_complete=is_complete)
        if is_complete:
            self._last_complete = now

    def _list(self, prefix: str, *, is_complete: bool) -> None:
        tables = self._scopes.get(prefix, set())
        after = None
        if len(tables) == 1 and not is_complete:
            name = next(iter(tables))
            if self._is_busy(name):
                return
            after = self.tables[name].after
        objects: dict[str, list[Found]] = {name: [] for name in tables}
        names: set[str] = set()
        for found in without_folders(list(self.store.objects(prefix, after))):
            names.add(found.key)
            if self.source.names.holds_changes(found.key) and not found.key.endswith(_METADATA):
                path = self._path_of(found.key)
                if path is not None:
                    name = producer_name(self.settings.name, self.source.name, path)
                    if name not in self.tables:
                        self.tables[name] = self._open(name, path)
                    objects.setdefault(name, []).append(found)
        self._scopes[prefix] = set(objects)
        for name, found_objects in objects.items():
            if not self._is_busy(name):
                table = self.tables[name]
                self._busy[name] = self.pool.submit(table.work, TableListing(found_objects, names, after is None))

    def _is_busy(self, name: str) -> bool:
        future = self._busy.get(name)
        if future is None:
            return False
        if future.done():
            future.result()
        return not future.done()

    def _prefixes(self) -> list[str]:
        """Return the prefixes to list: the folder of each table, if the template has one for each."""
        depth = table_depth(self.source.table_from_path)
        prefixes = [""]
        for _ in range(depth):
            prefixes = [
                folder
                for prefix in prefixes
                for folder in self.store.folders(prefix)
                if self.source.names.is_open(folder.rstrip("/").rpartition("/")[2])
            ]
        return prefixes

    def _path_of(self, key: str) -> TablePath | None:
        if not self.source.table_from_path:
            return TablePath(self.source.table)
        path = first_match(self.source.table_from_path, key)
        if path is None and key not in self._unmatched:
            self._unmatched.add(key)
            self.status.unmatched += 1
            self.log.warning(
                "object_left_out",
                about=self.source.name,
                source=self.source.name,
                object=key,
                note="it matches no table_from_path",
            )
        return path

    def _open(self, name: str, path: TablePath) -> TableReader:
        status = TableStatus(self.source.name, self.store.url, path.table or "")
        self.status.add(status)
        self.log.info("table_found", source=self.source.name, table=path.table, producer=name)
        return TableReader(
            self.settings, self.source, self.store, path, name, self.client, self.patience(status), self.log, status
        )


def table_depth(templates: tuple[PathTemplate, ...]) -> int:
    """Return how many folders deep each table has one folder, with all of its objects; 0 if the template does not say.

    Folders with a part of a table each, such as one for each day, would be listed apart and read out of order.
    """
    if len(templates) != 1:
        return 0
    *folders, _ = templates[0].text.removeprefix("./").strip("/").split("/") + (
        [""] if templates[0].text.endswith("/") else []
    )
    of_table = list(takewhile(lambda folder: _OF_TABLES.issuperset(_VARIABLE.findall(folder)), folders))
    depth = max((place for place, folder in enumerate(of_table, 1) if "{" in folder), default=0)
    return depth if any("{table}" in folder for folder in of_table) else 0


def run(
    settings: ObjectsSettings,
    stores: Mapping[str, ObjectStore],
    client: GatewayClient,
    log: BridgeLog,
    status: BridgeStatus,
    stop: threading.Event,
    *,
    once: bool,
) -> None:
    """Run all sources until `stop` is set; with `once`, until nothing is left. Raises the error of a source."""

    def patience(table: TableStatus) -> Patience:
        def on_wait(seconds: float, reason: MirrorgateError) -> None:
            table.waits_for = reason.detail
            log.warning(
                "gateway_waits", about="gateway", code=reason.code, detail=reason.detail, seconds=round(seconds, 1)
            )

        return Patience(_GIVE_UP_SECONDS if once else None, stop, on_wait)

    failures: list[BaseException] = []
    pool = ThreadPoolExecutor(settings.gateway.requests, "bridge-table")
    loops = [
        SourceLoop(settings, source, stores[source.name], client, patience, stop, pool, log, status)
        for source in settings.sources
    ]

    def guarded(loop: SourceLoop) -> None:
        try:
            loop.run(once=once)
        except BaseException as error:  # noqa: BLE001  # the caller raises it
            failures.append(error)
            stop.set()

    threads = [threading.Thread(target=guarded, args=[loop], name="bridge-source", daemon=True) for loop in loops]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) and not stop.wait(0.2):
        pass
    until = time.monotonic() + settings.stop.within
    for thread in threads:
        thread.join(max(until - time.monotonic(), 0))
    left = wait([one for loop in loops for one in loop.results()], max(until - time.monotonic(), 0)).not_done
    pool.shutdown(wait=False, cancel_futures=True)
    if left:
        log.warning("requests_abandoned", requests=len(left))
    if failures:
        raise failures[0]
