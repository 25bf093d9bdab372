"""Callers without back-off: each repeats its request at once until it is accepted, then sends the next."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from tests.support.samples.messages import arcion

_COLUMNS: Final = 16
_PLACE: Final = b"@@@@@@@@"
"""In a message, where the number of its request goes."""

_PAUSE: Final = 0.5
"""Seconds between two tries: half of the least that the gateway asks for."""

TABLE_COLUMNS: Final = [{"name": "request", "type": "string"}] + [
    {"name": f"column_{number:02d}", "type": "string"} for number in range(_COLUMNS)
]


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    retry_after: str | None


@dataclass
class Journal:
    """What became of every request, by its number."""

    sent: set[str] = field(default_factory=set)
    accepted: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Its receipt."""
    in_doubt: set[str] = field(default_factory=set)
    """Requests with a try that got no answer."""
    answers: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """How long each watched call took, by path."""
    surprises: list[str] = field(default_factory=list)


class Connection:
    """One connection to the gateway, opened again when it breaks.

    With httpx instead, the same callers send a tenth as many requests in the same time.
    """

    def __init__(self, address: str, key: str) -> None:
        where = urlsplit(address)
        self._host, self._port, self._key = where.hostname, where.port, key
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, method: str, path: str, body: bytes = b"", *headers: str) -> Answer:
        """Send a request. Raises OSError or asyncio.IncompleteReadError without an answer."""
        try:
            return await self._call(method, path, body, headers)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _call(self, method: str, path: str, body: bytes, headers: Sequence[str]) -> Answer:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        lines = [f"{method} {path} HTTP/1.1", "Host: gateway", f"Authorization: Bearer {self._key}"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        given = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        content = await reader.readexactly(int(given.get("content-length", 0)))
        is_json = "json" in given.get("content-type", "")
        if given.get("connection") == "close":
            self.close()
        return Answer(
            int(head[0].split()[1]), msgspec.json.decode(content) if is_json else None, given.get("retry-after")
        )


@dataclass
class Load:
    """Requests to one gateway until `over` is set."""

    address: str
    key: str
    over: asyncio.Event
    journal: Journal = field(default_factory=Journal)
    _numbers: "count[int]" = field(default_factory=count)

    async def post(self, table: str, messages: int) -> None:
        """Post requests to a table, one after the other."""
        template = body_of(table, messages)
        connection = Connection(self.address, self.key)
        while not self.over.is_set():
            number = f"{next(self._numbers):08d}"
            self.journal.sent.add(number)
            await self._until_accepted(connection, number, template.replace(_PLACE, number.encode()))
        connection.close()

    async def watch(self, path: str) -> None:
        """Ask for a status again and again, which must be answered each time."""
        connection, clock = Connection(self.address, self.key), asyncio.get_running_loop().time
        seconds = self.journal.seconds.setdefault(path, [])
        while not self.over.is_set():
            started = clock()
            try:
                answer = await connection.call("GET", path)
            except (OSError, asyncio.IncompleteReadError) as error:
                self.journal.surprises.append(f"GET {path}: {type(error).__name__}")
            else:
                seconds.append(clock() - started)
                if answer.status != 200:
                    self.journal.surprises.append(f"GET {path}: {answer.status}")
            await asyncio.sleep(0.1)
        connection.close()

    async def hold(self, table: str, size: int) -> None:
        """Send halves of bodies again and again, and leave."""
        where = urlsplit(self.address)
        head = f"POST /v1/changes/arcion HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {self.key}\r\n"
        half = f"{head}Content-Length: {size}\r\n\r\n".encode() + body_of(table, 1)
        while not self.over.is_set():
            try:
                _, writer = await asyncio.open_connection(where.hostname, where.port)
                writer.write(half)
                await asyncio.sleep(0.5)
                writer.close()
            except OSError:
                self.journal.answers["half a body, broken off"] += 1

    async def _until_accepted(self, connection: Connection, number: str, body: bytes) -> None:
        while not self.over.is_set():
            try:
                answer = await connection.call("POST", "/v1/changes/arcion", body, f"Idempotency-Key: {number}")
            except (OSError, asyncio.IncompleteReadError):
                self.journal.in_doubt.add(number)
                self.journal.answers["none"] += 1
            else:
                self._note(number, answer)
                if answer.status in {200, 202}:
                    return
            await asyncio.sleep(_PAUSE)

    def _note(self, number: str, answer: Answer) -> None:
        if answer.status in {200, 202}:
            [self.journal.accepted[number]] = answer.body["receipts"]
            self.journal.answers["accepted"] += 1
            return
        code = answer.body["code"] if answer.body else "none"
        self.journal.answers[f"{answer.status} {code}"] += 1
        if answer.status not in {429, 503} or answer.retry_after is None:
            self.journal.surprises.append(f"a change was answered {answer.status} {code}")
        if code == "commit_unknown":
            self.journal.in_doubt.add(number)


def body_of(table: str, messages: int) -> bytes:
    """So many inserts of about 1.4 kB, with a place for the number of the request in each."""
    names = [column["name"] for column in TABLE_COLUMNS]
    row = {name: f"a text of {name}" for name in names} | {"request": _PLACE.decode()}
    cursor = '{"extractorId":0,"timestamp":1657516903000,"log":"log-bin.000010","position":7461,"v":2}'
    message = arcion(table, None, row, cursor=cursor) | {"before": dict.fromkeys(names, "null")}
    return msgspec.json.encode([message] * messages)


async def run_for(
    seconds: float, over: asyncio.Event, callers: Sequence[Callable[[], Any]], enough: Callable[[], bool]
) -> None:
    """Run all callers at the same time for so long, and up to a minute longer for `enough` to have happened."""
    async with asyncio.TaskGroup() as group:
        for caller in callers:
            group.create_task(caller())
        await asyncio.sleep(seconds)
        for _ in range(600):
            if enough():
                break
            await asyncio.sleep(0.1)
        over.set()
