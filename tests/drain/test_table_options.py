"""What options of tables become through the drain: histories, loads, hashes, and those of newer programs."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from app.checks.preflight import examine
from app.domain.access.mask_secret import MaskSecret
from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber
from app.domain.model.table_options import DEFAULT_OPTIONS
from app.staging.ledger.leases import claim_table
from tests.api.calls import ADMIN_KEY, Gateway, insert, own_gateway, problem
from tests.drain.conftest import NewDrain
from tests.support.gateway_parts import current, folded
from tests.support.hashes import hashed
from tests.support.http.server import api_process
from tests.support.ingest_harness import IngestHarness, open_harness
from tests.support.postgres import sql
from tests.support.samples.messages import arcion
from tests.support.samples.schemas import schema_of
from tests.support.small_drain import publish_pending
from tests.support.waiting import wait_until

SCHEMA = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])
ADA, BOB = {"id": "1", "name": "Ada"}, {"id": "1", "name": "Bob"}
AUDIT = {"operation": "_op", "row_order": "_order", "deleted": "_deleted"}


def changed(harness: IngestHarness, table: str) -> None:
    harness.arcion(arcion(table, None, ADA), arcion(table, None, ADA | {"id": "2"}))
    harness.arcion(arcion(table, ADA, BOB), arcion(table, ADA | {"id": "2"}, None))


def file_of(zone: Path, table: str, number: int) -> pa.Table:
    return pq.ParquetFile(zone / table / file_name(FileNumber(number))).read()


def newest(rows: list[dict[str, Any]]) -> dict[int, str]:
    """Return the name of each present row, as the query in docs/tables/history-and-deletes.md finds it."""
    last = {row["id"]: row for row in sorted(rows, key=lambda row: row["_order"])}
    return {key: row["name"] for key, row in last.items() if not row["_deleted"]}


def test_files_of_a_history_have_every_version_and_no_keys(
    engine: sa.Engine, landing_zone: Path, new_drain: NewDrain
) -> None:
    cycle = new_drain()
    with open_harness(engine) as harness:
        harness.put("t", SCHEMA, history="append_only", seed_file=True, audit_columns=AUDIT)
        publish_pending(cycle)
        changed(harness, "t")
    publish_pending(cycle)
    seed, data = file_of(landing_zone, "t", 1), file_of(landing_zone, "t", 2)
    assert seed.schema == data.schema
    assert data.column_names == ["id", "name", "_op", "_order", "_deleted"]
    assert [row["_op"] for row in data.to_pylist()] == ["insert", "insert", "update", "delete"]
    assert newest(data.to_pylist()) == {1: "Bob"}
    assert json.loads((landing_zone / "t" / "_metadata.json").read_bytes()) == {}


def test_files_from_before_and_after_audit_columns_fold_to_the_same_table(
    engine: sa.Engine, landing_zone: Path, new_drain: NewDrain
) -> None:
    cycle = new_drain()
    with open_harness(engine) as harness:
        harness.put("t", SCHEMA)
        harness.arcion(arcion("t", None, ADA))
        publish_pending(cycle)
        harness.put("t", audit_columns={"operation": "_op"})
        harness.arcion(arcion("t", ADA, BOB))
        publish_pending(cycle)
    assert file_of(landing_zone, "t", 2).column_names == ["id", "name", "__rowMarker__"]
    assert file_of(landing_zone, "t", 3).to_pylist() == [{"id": 1, "name": "Bob", "_op": "update", "__rowMarker__": 1}]
    assert json.loads((landing_zone / "t" / "_metadata.json").read_bytes()) == {"keyColumns": ["id"]}


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


FORMER, PRESENT = "the former secret of hashed columns", "the present secret of hashed columns"
PRESENT_SECRET = MaskSecret(PRESENT.encode())
HASHED: dict[str, Any] = {"masks": {"mail": {"method": "hash"}}}
COLUMNS = {"id": "int64", "mail": "string"}
WRONG = "1 table has columns that are hashed under another MIRRORGATE_MASK_SECRET than that of this process"
ROW = {"id": 1, "mail": "ada@example.com"}


@pytest.fixture
def gateways(database_url: str) -> Iterator[tuple[Gateway, Gateway]]:
    """Give an API with the former secret, in this process, and one with the present secret in its own."""
    with (
        own_gateway(database_url, mask_secret=FORMER) as of_former,
        api_process(database_url, ADMIN_KEY, MASK_SECRET=PRESENT) as (_, present),
        Gateway.at(present, ADMIN_KEY) as of_present,
    ):
        yield of_former, of_present


def found_by_doctor(database_url: str, secret: MaskSecret | None = PRESENT_SECRET, **how: bool) -> dict[str, str]:
    findings = examine(None, database_url, {}, mask_secret=secret, **how)
    return {finding.check: finding.detail for finding in findings if finding.check.startswith("mask_")}


def wait_for_masks(gateways: tuple[Gateway, Gateway], *states: tuple[int, str]) -> None:
    """Wait until `/readyz`, which may be a second old, says this of the former and of the present secret."""

    def found() -> list[tuple[int, str]]:
        answers = [gateway.get("/readyz") for gateway in gateways]
        return [(answer.status_code, answer.json()["parts"]["masks"]) for answer in answers]

    wait_until(lambda: found() == [*states], within=30, what="/readyz shows the state of the secrets")


@pytest.mark.slow
def test_tables_are_hashed_under_one_secret_until_they_are_dropped(
    gateways: tuple[Gateway, Gateway], engine: sa.Engine, database_url: str, new_drain: NewDrain
) -> None:
    former, present = gateways
    wait_for_masks(gateways, (200, "ok"), (200, "ok"))
    former.register("t", COLUMNS, ["id"], **HASHED).raise_for_status()
    former.register("plain", COLUMNS, ["id"]).raise_for_status()

    for rejected in (
        present.rows("t", ROW),
        present.rows("t", ROW, dry_run="true"),
        present.register("u", COLUMNS, ["id"], **HASHED),
        *(
            present.post("/v1/tables/t/recreate", params={"generation": 1}, json=wanted)
            for wanted in ({"options": HASHED}, {"options": {"seed_file": False}}, {})
        ),
    ):
        details = problem(rejected, 503, "mask_secret_differs")
        assert "ada@" not in str(details)
        assert "secret of hashed" not in str(details)
    present.rows("plain", ROW).raise_for_status()
    former.rows("t", ROW).raise_for_status()
    wait_for_masks(gateways, (200, "ok"), (200, WRONG))
    assert found_by_doctor(database_url) == {"mask_secret": WRONG}
    assert "not set" not in found_by_doctor(database_url, None)["mask_secret"]
    assert "is not set" in found_by_doctor(database_url, None, is_api=True)["mask_secret"]
    former.register("t", COLUMNS, ["id"], **HASHED).raise_for_status()
    present.register("t", COLUMNS, ["id"], **HASHED).raise_for_status()  # a repeat hashes nothing

    former.delete("/v1/tables/t", params={"generation": 1}).raise_for_status()
    publish_pending(new_drain())
    present.register("t", COLUMNS, ["id"], **HASHED).raise_for_status()
    present.rows("t", ROW).raise_for_status()
    problem(former.rows("t", ROW), 503, "mask_secret_differs")
    wait_for_masks(gateways, (200, WRONG), (200, "ok"))
    with own_gateway(database_url, mask_secret=FORMER) as late:
        wait_for_masks((late, present), (503, WRONG), (200, "ok"))
    payload = "SELECT payload FROM mirrorgate.block_payloads WHERE table_id = :table_id"
    [(stored,)] = sql.rows(engine, payload, table_id=current(engine, "t").table_id)
    scope = f"table:{current(engine, 't').table_id}"
    assert hashed(PRESENT.encode(), scope, "ada@example.com").encode() in bytes(stored)


NEWER = {
    "an option": """UPDATE mirrorgate.tables SET options = options || '{"later": 1}' WHERE name = 'newer'""",
    "a value": """UPDATE mirrorgate.tables SET options = options || '{"reload": "later"}' WHERE name = 'newer'""",
    "a type": """UPDATE mirrorgate.schema_versions SET columns = replace(columns::text, 'string', 'later')::jsonb
        WHERE table_id = (SELECT table_id FROM mirrorgate.tables WHERE name = 'newer')""",
}


@pytest.fixture
def newer_gateway(database_url: str) -> Iterator[Gateway]:
    with own_gateway(database_url) as client:
        for name in ("known", "newer"):
            client.register(name, {"id": "int64", "note": "string"}, ["id"]).raise_for_status()
        yield client


@pytest.mark.parametrize("makes_newer", NEWER.values(), ids=NEWER)
def test_a_table_of_a_newer_version_stops_no_other_table_and_is_left_to_newer_programs(
    engine: sa.Engine, newer_gateway: Gateway, new_drain: NewDrain, makes_newer: str
) -> None:
    newer_gateway.rows("newer", {"id": 1, "note": "x"}).raise_for_status()
    drain = new_drain()
    publish_pending(drain)
    newer, known = (current(engine, name).table_id for name in ("newer", "known"))
    newer_gateway.rows("newer", {"id": 2, "note": "x"}).raise_for_status()
    sql.run(engine, makes_newer.replace(": ", "\\: "))
    sql.run(engine, "UPDATE mirrorgate.tables SET revision = revision + 1 WHERE name = 'newer'")

    for answer in (
        newer_gateway.rows("newer", {"id": 3, "note": "x"}),
        newer_gateway.arcion(insert("newer", id=3, note="x")),
        newer_gateway.get("/v1/tables/newer"),
    ):
        assert "newer has what this version does not know" in problem(answer, 503, "table_too_new")["detail"]
        assert int(answer.headers["retry-after"]) > 0
    newer_gateway.rows("known", {"id": 1, "note": "x"}).raise_for_status()
    assert [table["table"] for table in newer_gateway.get("/v1/tables").raise_for_status().json()["tables"]] == [
        "known"
    ]
    assert 'table="known"' in newer_gateway.get("/metrics").raise_for_status().text

    assert drain.leased.epoch(newer) is not None
    publish_pending(drain)
    assert (
        sql.value(engine, "SELECT published_through FROM mirrorgate.table_counters WHERE table_id = :t", t=known) == 1
    )
    assert drain.leased.epoch(newer) is None
    other = new_drain().context.worker_id
    assert sql.call(engine, claim_table, newer, other, held=None) is not None


def test_a_table_stores_only_what_differs_from_the_defaults(engine: sa.Engine, newer_gateway: Gateway) -> None:
    newer_gateway.put("/v1/tables/known", json={"options": {"dead_letters": "accept"}}).raise_for_status()
    stored = sql.value(engine, "SELECT options FROM mirrorgate.tables WHERE name = 'known'")
    assert stored == {"dead_letters": "accept", "seed_file": True}
    assert DEFAULT_OPTIONS.to_stored() == {}
