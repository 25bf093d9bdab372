"""Load sessions from the request to the files: what a mirror makes of the files is what the sessions mean."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.api.calls import Gateway, own_gateway
from tests.drain.conftest import NewDrain
from tests.support.gateway_parts import folded
from tests.support.small_drain import publish_pending

TABLE: Final = "sales.orders"
KEYS: Final = range(50)


@pytest.fixture
def gateway(database_url: str) -> Iterator[Gateway]:
    with own_gateway(database_url) as client:
        client.register(TABLE, {"id": "int64", "value": "int64"}, ["id"], row_images="on").raise_for_status()
        yield client


def test_files_of_a_stream_and_full_loads_make_the_rows_of_the_source(
    gateway: Gateway, new_drain: NewDrain, landing_zone: Path
) -> None:
    randomness = random.Random(1)
    drain, rows = new_drain(rows=30), dict[int, int]()
    for _ in range(3):
        load = gateway.post(f"/v1/tables/{TABLE}/loads", json={"mode": "full"}).raise_for_status().json()["load"]
        wanted = {key: randomness.randrange(10**6) for key in randomness.sample(KEYS, 30)}
        changed: set[int] = set()
        for key, value in wanted.items():
            if randomness.random() < 0.5:
                stream(gateway, randomness, rows, changed)
            if randomness.random() < 0.05:
                publish_pending(drain)
            header = {"Mirrorgate-Load": load}
            row = {"id": key, "value": value}
            gateway.post("/v1/changes/rows", params={"table": TABLE}, json=[row], headers=header).raise_for_status()
            if key not in changed:
                rows[key] = value
        done = gateway.post(f"/v1/tables/{TABLE}/loads/{load}/complete")
        assert (done.status_code, done.json()["rows"]) == (200, len(wanted) - done.json()["superseded"])
        rows = {key: value for key, value in rows.items() if key in wanted.keys() | changed}
        publish_pending(drain)
        assert {row["id"]: row["value"] for row in folded(landing_zone, TABLE, "id").values()} == rows


def stream(gateway: Gateway, randomness: random.Random, rows: dict[int, int], changed: set[int]) -> None:
    """Send a change of the stream: an upsert, or a delete of a row that may not exist."""
    key, value = randomness.choice(KEYS), randomness.randrange(10**6)
    row: dict[str, Any] = {"id": key, "value": value}
    if randomness.random() < 0.4:
        row["__op__"] = "delete"
        rows.pop(key, None)
    else:
        rows[key] = value
    changed.add(key)
    gateway.rows(TABLE, row).raise_for_status()
