"""One table of a source: which objects are read next, their reading and sending, and the status of the bridge.

`TableReader` reads the objects in order and posts them under one producer, one request at a time. Invariant: nothing is
sent after an object that was rejected, is incomplete, or cannot be read in order. The mark in memory is the durable
one, or lies behind it by objects that hold no message.

`plan` decides which objects are read next from a listing and the mark, in the words of docs/send/object-storage.md:

- By name, an object that sorts before the mark was read. One that was not there before, or was modified after the last
  object that was read, is *late*.
- By time, the order is that of modification time and name. A rewritten object is a new one.
- An object that was read and has another ETag since has *changed*. A partly read object may change behind the durable
  messages only, which the reader checks.

`BridgeStatus` has the counters of each table, for `/metrics`, `/readyz`, a progress bar and the last line.
"""

import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from app.observability.periodic_thread import PeriodicThread
from mirrorgate.chunking.chunks import Limits
from mirrorgate.errors import Code, MirrorgateError, RejectedInput, TemporarilyUnavailable
from mirrorgate.file_content import Mark, digest_of, stored_mark, with_lookahead
from mirrorgate.file_paths import FileOrder, TablePath, sort_key
from mirrorgate.folder import FileChanged, Found, ObjectGone
from mirrorgate.http import GatewayClient, RejectedByGateway
from mirrorgate.object_store import ObjectStore, read_small
from mirrorgate.producer import ChangeRequest, Patience, Producer, ProducerConflict, Stopped
from mirrorgate.retrying import is_final
from mirrorgate.source import content_type_of
from mirrorgate_bridge.log import BridgeLog
from mirrorgate_bridge.objects.replicate_files import ReplicateFilesReader, metadata_key
from mirrorgate_bridge.objects.settings import ObjectFormat, ObjectsSettings, Piece, Reading, SourceSettings, reading_of


@dataclass(frozen=True, slots=True)
class Stop:
    """The reason that a table is stopped: the object and the message in it, if one is at fault, and the error."""

    error: MirrorgateError
    key: str | None = None
    etag: str | None = None
    message: int | None = None
    since: float = 0.0


@dataclass
class TableStatus:
    """The state of one table. Only its own thread writes it, except what the listing finds."""

    source: str
    url: str
    table: str
    objects: int = 0
    messages: int = 0
    changes: int = 0
    requests: int = 0
    bytes: int = 0
    """Bytes read from the store, compressed or not."""
    waiting_objects: int = 0
    waiting_bytes: int = 0
    dead_letters: int = 0
    rejected: int = 0
    late: int = 0
    changed: int = 0
    deleted: int = 0
    last_object: str | None = None
    stop: Stop | None = None
    waits_for: str | None = None
    """Reason of the wait: the gateway or the store, with what it said."""

    def to_json(self) -> dict[str, Any]:
        """Return the status for `/readyz` and --json."""
        stop = None
        if self.stop is not None:
            error = self.stop.error
            stop = {
                "code": error.code,
                "detail": error.detail,
                "remedy": error.remedy,
                "object": self.stop.key,
                "message": self.stop.message,
                "errors": getattr(error, "errors", []),
            }
        counts = ("objects", "messages", "changes", "requests", "bytes", "dead_letters", "late", "changed", "deleted")
        return {
            "source": self.source,
            "table": self.table,
            **{name: getattr(self, name) for name in counts},
            "waiting": self.waiting_objects,
            "last_object": self.last_object,
            "waits_for": self.waits_for,
            "stopped": stop,
        }


@dataclass
class BridgeStatus:
    """The state of all tables and sources."""

    tables: list[TableStatus] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    """Sources that cannot be listed, with the reason."""
    unmatched: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, table: TableStatus) -> None:
        """Add a table that was found."""
        with self._lock:
            self.tables.append(table)

    def snapshot(self) -> list[TableStatus]:
        """Return the tables found so far."""
        with self._lock:
            return list(self.tables)

    def to_json(self) -> Mapping[str, Any]:
        """Return the facts for `/readyz`."""
        return {"tables": [table.to_json() for table in self.snapshot()], "unmatched": self.unmatched}

    def reasons(self) -> Sequence[str]:
        """Return why the bridge is not ready."""
        found = [f"{name}: {reason}" for name, reason in list(self.sources.items())]
        for table in self.snapshot():
            if table.stop is not None:
                found.append(f"{table.table or table.source} stopped: {table.stop.error.code}")
            elif table.waits_for is not None:
                found.append(f"{table.table or table.source} waits: {table.waits_for}")
        return found


@contextmanager
def showing(status: BridgeStatus, console: Console) -> Iterator[None]:
    """Show how many objects are read while the block runs. Lines on standard error appear above the bar."""
    if not console.is_terminal:
        yield
        return
    columns = (
        TextColumn("{task.fields[tables]} tables"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.fields[found]:,} objects, {task.fields[messages]:,} messages"),
        TextColumn("{task.fields[trouble]}", style="red"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=None, tables=0, found=0, messages=0, trouble="")

        def refresh() -> None:
            tables = status.snapshot()
            done = sum(table.objects for table in tables)
            stopped = sum(table.stop is not None for table in tables)
            waits = sum(table.waits_for is not None for table in tables) + len(status.sources)
            trouble = [f"{count} {what}" for count, what in ((stopped, "stopped"), (waits, "waiting")) if count]
            waiting = sum(table.waiting_objects for table in tables)
            bar.update(
                task,
                completed=done,
                total=done + waiting if waiting else None,  # a bar that is full would stop its clock
                found=done + waiting,
                tables=len(tables),
                messages=sum(table.messages for table in tables),
                trouble=", ".join(trouble),
            )

        with PeriodicThread("bridge-display", 0.2, refresh, at_end=refresh):
            yield


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan for the objects of a table."""

    pending: tuple[Found, ...]
    """The objects to read, in order; first the one that was partly read."""
    late: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: str | None = None
    """The partly read object, if it was deleted."""
    is_lost: bool = False
    """The mark has only the beginning of its key, and no object fits it."""


def resolved(mark: Mark | None, listed: Iterable[Found]) -> Mark | None:
    """Return the mark with its whole key, if the position had to be cut and a listed object fits it."""
    if mark is None or mark.key_hash is None:
        return mark
    for found in listed:
        if mark.is_of(found.key):
            return replace(mark, key=found.key, key_hash=None)
    return mark


def start_after(mark: Mark | None, order: FileOrder) -> str | None:
    """Return the key after which a listing may start; None if it has to be complete."""
    if mark is None or order is not FileOrder.NAME:
        return None
    if mark.next_message is None and mark.key_hash is None:
        return mark.key
    return mark.key[:-1] or None


def plan(
    listed: Iterable[Found], mark: Mark | None, order: FileOrder, known: Mapping[str, str], *, first: bool
) -> Plan:
    """Plan the objects of a table.

    `known` has the ETag hash of each object that this process has listed before. `first` says that no complete listing
    was made yet: then an object before the mark that is not known was read by an earlier process, unless it is newer.
    """

    def place(found: Found) -> tuple[int, str]:
        return sort_key(order, found.key, found.modified)

    objects = sorted(listed, key=place)
    mark = resolved(mark, objects)
    if mark is None:
        return Plan(tuple(objects))
    if mark.key_hash is not None:
        return Plan((), is_lost=True)
    at = sort_key(order, mark.key, mark.newest)
    pending, late, changed = [], [], []
    partly: Found | None = None
    for found in objects:
        is_rewritten = order is FileOrder.MODIFIED and found.modified > mark.newest
        if found.key == mark.key and mark.next_message is not None:
            partly = found
        elif found.key == mark.key and not is_rewritten:
            if digest_of(found.etag) != mark.etag:
                changed.append(found.key)
        elif place(found) > at:
            pending.append(found)
        elif (etag := known.get(found.key)) is not None:
            if etag != digest_of(found.etag):
                changed.append(found.key)
        elif not first or found.modified > mark.newest:
            late.append(found.key)
    gone = mark.key if mark.next_message is not None and partly is None else None
    return Plan((*((partly,) if partly else ()), *pending), tuple(late), tuple(changed), gone)


_MAX_CONFLICTS: Final = 3
_CONFLICT_SECONDS: Final = 600.0
_TOO_LARGE: Final = (Code.BODY_TOO_LARGE, Code.TOO_MANY_MESSAGES, Code.TOO_MANY_NESTED_VALUES)


@dataclass(frozen=True, slots=True)
class TableListing:
    """The objects of a table in a listing. `names` has all keys, also those of markers and metadata."""

    objects: list[Found]
    names: Collection[str]
    is_complete: bool


class _Rejected(Exception):
    """A request was rejected. `index` is the first message at fault in the piece, if the gateway names one."""

    def __init__(self, piece: Piece, cause: RejectedByGateway) -> None:
        super().__init__(cause.detail)
        self.piece, self.cause = piece, cause
        indexes = [error["index"] - piece.not_counted for error in cause.errors if "index" in error]
        self.index = min((index for index in indexes if index >= 0), default=None)


@dataclass
class TableReader:
    """Sender of the objects of one table. `work` runs in one thread at a time."""

    settings: ObjectsSettings
    source: SourceSettings
    store: ObjectStore
    path: TablePath
    producer_name: str
    client: GatewayClient
    patience: Patience
    log: BridgeLog
    status: TableStatus
    clock: Callable[[], float] = time.monotonic
    has_more: bool = True
    """True if something may be left to send that the last `work` has seen."""
    _producer: Producer | None = None
    _mark: Mark | None = None
    _known: dict[str, str] = field(default_factory=dict)
    _first: bool = True
    _seen: dict[str, tuple[str, float]] = field(default_factory=dict)
    """ETag of each waiting object, and the time when it was first seen with it."""
    _reported: set[tuple[str, str]] = field(default_factory=set)
    _conflicts: list[float] = field(default_factory=list)
    _away_since: float | None = None

    @property
    def after(self) -> str | None:
        """The key after which a listing may start; None if it has to be complete."""
        if self._producer is None or (self.status.stop is not None and self.status.stop.key is None):
            return None
        return start_after(self._mark, self.source.order)

    def work(self, listing: TableListing) -> None:
        """Send what is complete, in order. Errors stop the table, or make it wait; the rest of the bridge continues."""
        try:
            self.has_more = self._work(listing)
            self.status.waits_for = self._away_since = None
        except Stopped:
            return
        except TemporarilyUnavailable as error:
            self._wait(error)
        except MirrorgateError as error:
            self.has_more = False
            self._stop(error)
        except Exception as error:  # noqa: BLE001  # a crash of one table must not end the others
            at = traceback.format_tb(error.__traceback__)[-1].strip().splitlines()[0]
            detail = f"{type(error).__name__} at {at}"
            self.has_more = False
            self._stop(MirrorgateError(Code.INTERNAL, detail, remedy="Report this as a bug."))

    def _wait(self, error: TemporarilyUnavailable) -> None:
        """Retry with the next listing, unless patience has ended: then stop."""
        now, give_up_after = self.clock(), self.patience.give_up_after
        self._away_since = now if self._away_since is None else self._away_since
        is_of_store = error.code is Code.SOURCE_UNAVAILABLE
        self.has_more = give_up_after is None or (is_of_store and now - self._away_since < give_up_after)
        if not self.has_more:
            self._stop(error)
            return
        self.status.waits_for = error.detail
        self.log.warning("table_waits", about=self.producer_name, **self._names, code=error.code, detail=error.detail)

    def _work(self, listing: TableListing) -> bool:
        if self._producer is None:
            self._note_waiting(listing.objects)
            self._producer = Producer.open(self.client, self.producer_name, self.patience)
            self._read_position()
        self._mark = resolved(self._mark, listing.objects)
        planned = plan(listing.objects, self._mark, self.source.order, self._known, first=self._first)
        if listing.is_complete and not self._is_in_order(planned, listing):
            return False
        for found in listing.objects:
            self._known[found.key] = digest_of(found.etag)
        self._first = self._first and not listing.is_complete
        self._note_waiting(planned.pending)
        if self._is_still_stopped(planned.pending):
            return False
        self.status.stop = None
        for found in planned.pending:
            if self.patience.stop.is_set() or not self._is_complete(found, listing):
                return True
            if not self._read(found):
                return self.status.stop is None
            self.status.waiting_objects -= 1
            self.status.waiting_bytes -= found.size
        return False

    def _read_position(self) -> None:
        assert self._producer is not None
        self._mark = stored_mark(self.producer_name, self._producer.sequence, self._producer.position)

    def _is_in_order(self, planned: Plan, listing: TableListing) -> bool:
        """Report what can no longer be read once and in order; stop the table if the source says so."""
        if planned.is_lost:
            detail = "the object that was read last is gone, and its name is too long to be kept as a position"
            self._stop(MirrorgateError(Code.SOURCE_POSITION_LOST, detail))
            return False
        if planned.gone is not None and self._once_only(planned.gone, "gone"):
            self.status.deleted += 1
            self.log.warning("object_deleted", **self._names, object=planned.gone, note="it was read in part")
        etags = {found.key: found.etag for found in listing.objects}
        for event, keys in (("object_late", planned.late), ("object_changed", planned.changed)):
            for key in keys:
                if self._once_only(key, etags[key]):
                    self.status.late += event == "object_late"
                    self.status.changed += event == "object_changed"
                    self.log.error(event, about=(self.producer_name, key), **self._names, object=key)
        if self.source.late == "report" or not (planned.late or planned.changed):
            return True
        self._stop(_out_of_order(planned))
        return False

    def _once_only(self, key: str, state: str) -> bool:
        is_new = (key, state) not in self._reported
        self._reported.add((key, state))
        return is_new

    def _note_waiting(self, pending: Collection[Found]) -> None:
        now = self.clock()
        self._seen = {
            found.key: self._seen[found.key] if self._seen.get(found.key, ("",))[0] == found.etag else (found.etag, now)
            for found in pending
        }
        self.status.waiting_objects = len(pending)
        self.status.waiting_bytes = sum(found.size for found in pending)

    def _is_complete(self, found: Found, listing: TableListing) -> bool:
        if self.source.names.done_marker is not None:
            return found.key + self.source.names.done_marker in listing.names
        if self.source.format is ObjectFormat.REPLICATE_FILES and metadata_key(found.key) not in listing.names:
            return False
        return self.clock() - self._seen[found.key][1] >= self.source.settle

    def _is_still_stopped(self, pending: Collection[Found]) -> bool:
        """Return whether the object at fault is unchanged, and it is too early to try it again."""
        stop = self.status.stop
        if stop is None or stop.key is None:
            return stop is not None and self.clock() - stop.since < self.settings.stop.retry_after
        is_same = any(found.key == stop.key and found.etag == stop.etag for found in pending)
        return is_same and self.clock() - stop.since < self.settings.stop.retry_after

    def _read(self, found: Found) -> bool:
        """Send what is left of an object; return whether it is complete."""
        try:
            self._send_object(found, Limits(self.settings.batch.max_bytes, self.settings.batch.max_messages), None)
        except ObjectGone:
            self.status.deleted += 1
            self.log.warning("object_deleted", **self._names, object=found.key, note="it was listed and not read")
            return True
        except ProducerConflict as error:
            self._meet_conflict(error)
            return False
        except _Rejected as rejected:
            self._stop_at(found, rejected)
            return False
        except (_ChangedMeanwhile, FileChanged):
            self.log.warning(
                "object_is_changing", about=(self.producer_name, found.key), **self._names, object=found.key
            )
            return False
        except RejectedInput as error:
            self._stop(error, found)
            return False
        if self._mark is None or self._mark.next_message is not None or not self._mark.is_of(found.key):
            self._mark = self._mark_after(found, None)  # it holds no message, so no request carries this position
        self.status.objects += 1
        self.status.last_object = found.key
        return True

    def _send_object(self, found: Found, limits: Limits, most: int | None) -> None:
        """Send the pieces of an object after the mark; only the first `most` of them, none of them as the last."""
        mark = self._mark
        at = mark if mark is not None and mark.next_message is not None and mark.is_of(found.key) else None
        reading = self._reading(found)
        with self.store.reading(found.key) as (etag, blocks):
            if digest_of(etag) != digest_of(found.etag):
                raise _ChangedMeanwhile
            pieces = with_lookahead(reading.reader.pieces(self._counted(blocks), limits, at))
            for number, (piece, is_last) in enumerate(pieces):
                if number == most:
                    return
                if self.patience.stop.is_set():
                    raise Stopped
                self._send(found, reading, piece, is_last=is_last and most is None)

    def _reading(self, found: Found) -> Reading:
        parameters = {**self.source.parameters, **self.path.parameters}
        if self.source.format is ObjectFormat.REPLICATE_FILES:
            description = read_small(self.store, metadata_key(found.key))
            reader = ReplicateFilesReader.of(description, found.key, self.source.key_columns)
            return Reading("replicate", reader, parameters)
        return reading_of(self.source.format, self.source.content, found.key, self.path.table, parameters)

    def _send(self, found: Found, reading: Reading, piece: Piece, *, is_last: bool) -> None:
        assert self._producer is not None
        mark = self._mark_after(found, None if is_last else piece)
        table = {} if self.path.table is None else {"table": self.path.table}
        rejects = {"on_reject": "dead_letter"} if self.source.on_reject == "dead_letter" else {}
        request = ChangeRequest(
            reading.endpoint,
            piece.body,
            {**table, **reading.parameters, **rejects},
            content_type=reading.reader.content_type or content_type_of(piece.body),
            position=mark.encoded(),
        )
        try:
            answer = self._producer.send(request)
        except RejectedByGateway as error:
            if not is_final(error):
                raise
            raise _Rejected(piece, error) from error
        self._mark = mark
        self._count(piece, answer)

    def _count(self, piece: Piece, answer: Mapping[str, object]) -> None:
        status = self.status
        status.waits_for = None
        status.requests += 1
        status.messages += piece.after - piece.first
        receipts = answer.get("receipts")
        status.changes += sum(int(receipt["changes"]) for receipt in receipts) if isinstance(receipts, list) else 0
        status.dead_letters += int(str(answer.get("dead_letters", 0)))

    def _mark_after(self, found: Found, piece: Piece | None) -> Mark:
        newest = max(found.modified, 0 if self._mark is None else self._mark.newest)
        if piece is None:
            return Mark(found.key, digest_of(found.etag), newest)
        return Mark(found.key, digest_of(found.etag), newest, piece.after, piece.end, piece.content)

    def _stop_at(self, found: Found, rejected: _Rejected) -> None:
        """Send the messages before the one at fault, then stop."""
        piece, index, error = rejected.piece, rejected.index, rejected.cause
        self.status.rejected += 1
        if index and error.code not in _TOO_LARGE:
            try:
                self._send_object(found, Limits(len(piece.body) + 1, index), 1)
            except (_Rejected, _ChangedMeanwhile, RejectedInput, ObjectGone):
                index = None
        message = None if rejected.index is None else piece.first + rejected.index
        self._stop(error, found, message)

    def _meet_conflict(self, error: ProducerConflict) -> None:
        """Continue after what another process has sent, or stop if that happens repeatedly."""
        assert self._producer is not None
        now = self.clock()
        self._conflicts = [at for at in self._conflicts if now - at < _CONFLICT_SECONDS] + [now]
        self.log.warning("producer_conflict", about=self.producer_name, **self._names, detail=error.detail)
        self._producer.refresh()
        self._read_position()
        if len(self._conflicts) >= _MAX_CONFLICTS:
            detail = f"another process sends as the producer {self.producer_name}, at the same time as this bridge"
            remedy = "Stop the other bridge, or give this one another `name`, which reads every object again."
            raise MirrorgateError(Code.PRODUCER_SHARED, detail, remedy=remedy)

    def _stop(self, error: MirrorgateError, found: Found | None = None, message: int | None = None) -> None:
        key = None if found is None else found.key
        etag = None if found is None else found.etag
        self.status.stop = Stop(error, key, etag, message, self.clock())
        where = self.store.url.rstrip("/")
        self.log.error(
            "table_stopped",
            about=self.producer_name,
            **self._names,
            object=None if key is None else f"{where}/{key}",
            message=message,
            code=error.code,
            detail=error.detail,
            errors=[_brief(problem) for problem in getattr(error, "errors", [])[:3]] or None,
            remedy=error.remedy,
            note="the other tables continue",
        )

    def _counted(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        for block in blocks:
            self.status.bytes += len(block)
            yield block

    @property
    def _names(self) -> dict[str, str | None]:
        return {"source": self.source.name, "table": self.path.table}


class _ChangedMeanwhile(Exception):
    """The object was written again since it was listed: the next listing has its new state."""


def _out_of_order(planned: Plan) -> MirrorgateError:
    if planned.late:
        detail = (
            f"{len(planned.late)} objects appeared before the last one that was read, the first is {planned.late[0]}"
        )
        remedy = (
            "Copy them to names that sort after it and delete them here, or write `late: report` to leave them unread."
        )
    else:
        detail = f"{len(planned.changed)} objects have changed since they were read, the first is {planned.changed[0]}"
        remedy = (
            "Write new content under a new name. Restore or delete these objects, or write `late: report` to ignore "
            "changes of objects that were read."
        )
    return MirrorgateError(Code.SOURCE_ORDER_UNSAFE, detail, remedy=remedy)


def _brief(problem: Mapping[str, object]) -> dict[str, object]:
    return {name: problem[name] for name in ("index", "pointer", "code", "detail") if name in problem}
