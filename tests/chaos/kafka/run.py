"""One run: bridges read while they are killed, while partitions move, and while answers are lost.

Every record has its number within its partition, and rows land with `op=insert` in tables without a key. So a record
that landed twice, not at all, or before its predecessor is visible in the staged rows, which the check compares with
what was produced.
"""

import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from mirrorgate.http import GatewayClient
from tests.api.calls import ADMIN_KEY
from tests.api.commands import staged
from tests.chaos.checks.oracle import Result
from tests.chaos.kafka.fleet import Fleet
from tests.chaos.kafka.source import COLUMNS, Source
from tests.support.http.faulty_proxy import Fault, Request, faulty_proxy
from tests.support.http.server import api_process
from tests.support.kafka import kafka_cluster, registry_double
from tests.support.postgres.databases import private_database
from tests.support.waiting import wait_until

_CONFIGURATION: Final = """
gateway: {{url: {gateway}, key: {key}}}
registry: {{url: {registry}}}
health: {{port: 0}}
kafka:
  cluster: chaos
  settings:
    bootstrap.servers: {bootstrap}
    session.timeout.ms: 600
    heartbeat.interval.ms: 50
batch: {{max_age: 20 ms, max_messages: 200}}
topics:
  - pattern: '(?P<encoding>json)\\.orders'
    format: rows
    table: "{{encoding}}.orders"
    parameters: {{op: insert}}
  - topic: avro.orders
    format: rows
    table: avro.orders
    value: avro
    parameters: {{op: insert}}
"""
_POSITIONS: Final = "SELECT producer, position FROM mirrorgate.producers"
_REQUESTS: Final = "SELECT coalesce(sum(last_sequence), 0) FROM mirrorgate.producers"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much happens to how many bridges."""

    kills: int
    rebalances: int
    bridges: int = 3
    partitions: int = 6
    lost_answers: float = 0.01
    settles_within: float = 120.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened, and what is wrong with what landed."""

    records: int
    requests: int
    kills: int
    rebalances: int
    lost_answers: int
    violations: tuple[str, ...]


def run_bridges(place: Path, seed: int, seconds: float) -> Result:
    """Kill bridges or move partitions about once a second, against a new gateway."""
    place.mkdir(parents=True)
    actions = max(5, int(seconds))
    plan = Plan(kills=actions * 4 // 5, rebalances=actions // 5)
    with private_database(place / "postgres") as (url, engine), api_process(url, ADMIN_KEY) as (_, gateway):
        outcome = run(place, gateway, ADMIN_KEY, engine, plan, seed)
    return Result(
        kills=Counter({"bridge": outcome.kills, "bridge stopped or joined by another": outcome.rebalances}),
        events=Counter({"answers to bridges lost": outcome.lost_answers}),
        rows=outcome.records,
        batches=outcome.requests,
        violation="; ".join(outcome.violations) or None,
    )


def run(place: Path, gateway: str, key: str, engine: sa.Engine, plan: Plan, seed: int) -> Outcome:
    """Run the plan against a gateway whose tables are in the database of `engine`."""
    source_of_chance = random.Random(seed)

    def fault_of(_: Request) -> Fault:
        return Fault.LOST if source_of_chance.random() < plan.lost_answers else Fault.NONE

    with (
        kafka_cluster(topic_ids=True) as cluster,
        registry_double() as registry,
        faulty_proxy(gateway, usual=fault_of) as proxy,
        GatewayClient(gateway, key) as client,
    ):
        source = Source(cluster, registry, plan.partitions)
        for topic in source.partitions:
            columns = [{"name": name, "type": declared} for name, declared in COLUMNS.items()]
            client.put(f"/v1/tables/{topic}", {"columns": columns})
        configuration = place / "bridge.yaml"
        addresses = {"gateway": proxy.url, "registry": registry.url, "bootstrap": cluster.bootstrap}
        configuration.write_text(_CONFIGURATION.format(key=key, **addresses))
        fleet = Fleet(configuration, place, source_of_chance, plan.bridges)
        try:
            _torture(fleet, source, engine, plan)
            _settle(fleet, source, engine, plan.settles_within)
        finally:
            fleet.end()
        requests = _requests(engine)
        violations = (*fleet.failures, *_violations(engine, source))
        done = (fleet.kills, fleet.rebalances, proxy.happened[Fault.LOST])
        return Outcome(source.total, requests, *done, violations)


def _torture(fleet: Fleet, source: Source, engine: sa.Engine, plan: Plan) -> None:
    """Kill and rebalance in random order while records arrive, mostly after the bridges have made some progress."""
    actions = [fleet.kill] * plan.kills + [fleet.rebalance] * plan.rebalances
    fleet.source.shuffle(actions)
    ended, failures = threading.Event(), list[BaseException]()

    def produce() -> None:
        try:
            while not ended.wait(0.05):
                source.produce(2)
        except BaseException as error:
            failures.append(error)
            raise

    producer = threading.Thread(target=produce, name="producer")
    producer.start()
    try:
        fleet.start()
        for action in actions:
            _await_progress(engine, _requests(engine), within=3.0)
            threading.Event().wait(fleet.source.uniform(0, 0.3))
            action()
    finally:
        ended.set()
        producer.join()
    assert not failures, failures


def _await_progress(engine: sa.Engine, before: int, within: float) -> None:
    """Wait until a request has become durable, or not much longer: a kill may also hit bridges that begin."""
    end = time.monotonic() + within
    while _requests(engine) == before and time.monotonic() < end:
        threading.Event().wait(0.02)


def _settle(fleet: Fleet, source: Source, engine: sa.Engine, within: float) -> None:
    def landed() -> bool:
        fleet.start()
        with engine.begin() as connection:
            rows = connection.execute(sa.text("SELECT coalesce(sum(row_count), 0) FROM mirrorgate.staged_blocks"))
            return int(rows.scalar_one()) >= source.total

    wait_until(landed, within=within, what=f"{source.total:,} records land")


def _requests(engine: sa.Engine) -> int:
    with engine.begin() as connection:
        return int(connection.execute(sa.text(_REQUESTS)).scalar_one())


def _violations(engine: sa.Engine, source: Source) -> list[str]:
    """Return what differs between the staged rows of each partition and what was produced."""
    found = []
    with engine.begin() as connection:
        positions = {name: json.loads(text) for name, text in connection.execute(sa.text(_POSITIONS)).all()}
    landed: dict[tuple[str, int], list[int]] = {place: [] for place in source.produced}
    for topic in source.partitions:
        for partition, number, _ in staged(engine, topic):
            landed[topic, partition].append(number)
    for (topic, partition), count in source.produced.items():
        position = positions.get(f"kafka:chaos/mirrorgate/{topic}/{partition}", {}).get("offset")
        if position != count - 1:
            found.append(f"{topic}/{partition}: the position is {position}, the last offset {count - 1}")
        numbers = landed[topic, partition]
        if numbers != list(range(count)):
            missing, twice = count - len(set(numbers)), len(numbers) - len(set(numbers))
            found.append(
                f"{topic}/{partition}: {count} produced, {len(numbers)} landed, {missing} missing, {twice} repeated, "
                f"{'in order' if numbers == sorted(numbers) else 'out of order'}"
            )
    return found
