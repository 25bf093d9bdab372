"""Load sessions beside a stream while the API is killed again and again: the files make the rows of the model.

The answers tell the sequence of each request, and with it the one order in which all of them count.
"""

import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
import sqlalchemy as sa

from tests.chaos.client import Caller, require
from tests.chaos.parts.processes import ADMIN_KEY, ApiProcess
from tests.support.gateway_parts import folded
from tests.support.postgres import sql
from tests.support.small_drain import publish_pending, small_drain

TABLE: Final = "sales.orders"
KEYS: Final = range(300)
PART: Final = 20
ROUNDS: Final = 60
COLUMNS: Final = [{"name": "id", "type": "int64", "nullable": False}, {"name": "value", "type": "int64"}]
REGISTRATION: Final = {"columns": COLUMNS, "key_columns": ["id"], "options": {"row_images": "on", "seed_file": False}}


@dataclass(frozen=True)
class Event:
    """An accepted request: its rows, None for a deleted one. Of a load, `begin` is the load's first sequence."""

    sequence: int
    rows: dict[int, int | None]
    landed: int
    begin: int = 0


def post(caller: Caller, rows: Sequence[dict[str, Any]], **headers: str) -> tuple[int, int]:
    """Return the sequence of the rows, and how many of them land."""
    headers = {"Idempotency-Key": uuid4().hex, **headers}
    answer = caller.call("POST", "/v1/changes/rows", params={"table": TABLE}, json=rows, headers=headers)
    receipts = require(answer, 200, 202)["receipts"]
    return (receipts[0]["sequence"], receipts[0]["rows"]) if receipts else (0, 0)


@dataclass
class Killer:
    """Kills the API at random moments, and starts it again."""

    api: ApiProcess
    source: random.Random
    ended: threading.Event
    kills: int = 0

    def run(self) -> None:
        while not self.ended.wait(self.source.uniform(0.1, 0.8)):
            if self.api.answers:
                self.api.kill()
                self.kills += 1
                self.api.tend()


def streamed(caller: Caller, source: random.Random, ended: threading.Event) -> list[Event]:
    """Send upserts and deletes until the loads have ended."""
    events = []
    while not ended.is_set():
        key, value = source.choice(KEYS), source.randrange(10**6)
        is_delete = source.random() < 0.4
        row = {"id": key, "value": value} | ({"__op__": "delete"} if is_delete else {})
        sequence, landed = post(caller, [row])
        events.append(Event(sequence, {key: None if is_delete else value}, landed))
    return events


def loaded(caller: Caller, engine: sa.Engine, source: random.Random) -> tuple[list[Event], int]:
    """Load a random part of the keys; return the requests with rows, and the first sequence of the load."""
    load, path = str(uuid4()), f"/v1/tables/{TABLE}/loads"
    require(caller.call("POST", path, json={"mode": "full", "load": load}), 200, 201)
    begin = sql.value(engine, "SELECT begin_sequence FROM mirrorgate.loads WHERE load_id = CAST(:l AS uuid)", l=load)
    events, keys = [], source.sample(KEYS, 200)
    for start in range(0, len(keys), PART):
        rows: dict[int, int | None] = {key: source.randrange(10**6) for key in keys[start : start + PART]}
        given = [{"id": key, "value": value} for key, value in rows.items()]
        sequence, landed = post(caller, given, **{"Mirrorgate-Load": load})
        events.append(Event(sequence, rows, landed, begin))
    while require(caller.call("POST", f"{path}/{load}/complete"), 200, 202)["state"] != "completed":
        pass
    return events, begin


def expected(events: Sequence[Event], last_begin: int) -> dict[int, int]:
    """Return the rows after all requests; check how many rows of each one landed."""
    rows: dict[int, tuple[int, int | None]] = {}
    touched: dict[int, int] = {}
    for event in sorted((event for event in events if event.sequence), key=lambda event: event.sequence):
        landing = {
            key: value for key, value in event.rows.items() if not event.begin or touched.get(key, 0) < event.begin
        }
        assert len(landing) == event.landed
        rows |= {key: (event.sequence, value) for key, value in landing.items()}
        if not event.begin:
            touched |= dict.fromkeys(event.rows, event.sequence)
    return {key: value for key, (at, value) in rows.items() if value is not None and at >= last_begin}


@pytest.fixture
def api(database_url: str, tmp_path: Path) -> Iterator[ApiProcess]:
    process = ApiProcess(database_url, tmp_path / "api.log")
    yield process
    process.kill()


@pytest.mark.thorough
@pytest.mark.timeout(1_800)
def test_loads_and_stream_equal_the_model_while_the_api_is_killed(
    api: ApiProcess, engine: sa.Engine, database_url: str, tmp_path: Path
) -> None:
    ended = threading.Event()
    killer = Killer(api, random.Random(1), ended)
    callers = [Caller([api.url], ADMIN_KEY, random.Random(3), Counter()) for _ in range(2)]
    with closing(callers[0]) as caller, closing(callers[1]) as streaming, ThreadPoolExecutor(2) as threads:
        require(caller.call("PUT", f"/v1/tables/{TABLE}", json=REGISTRATION), 200, 201)
        killing = threads.submit(killer.run)
        stream = threads.submit(streamed, streaming, random.Random(2), ended)
        try:
            loads = [loaded(caller, engine, random.Random(seed)) for seed in range(ROUNDS)]
        finally:
            ended.set()
        killing.result()
        events = [*stream.result(), *(event for of_load, _ in loads for event in of_load)]
    assert killer.kills >= ROUNDS
    with small_drain(database_url, tmp_path / "zone", rows=500) as drain:
        publish_pending(drain)
    mirrored = {row["id"]: row["value"] for row in folded(tmp_path / "zone", TABLE, "id").values()}
    assert mirrored == expected(events, loads[-1][1])
