"""Posting Arcion messages: the documented samples and their results."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from app.observability.api_metrics import HASH_MISMATCHES
from tests.api.calls import NATION, REGION, Gateway, problem
from tests.support.postgres.ledger import owned_now, plan, publish

NATION_COLUMNS = {"n_nationkey": "int32", "n_name": "string", "n_regionkey": "int32", "n_comment": "string"}
REGION_COLUMNS = {"r_regionkey": "int32", "r_name": "string", "r_comment": "string"}


@pytest.fixture
def tpch(gateway: Gateway) -> Gateway:
    """Give a gateway with the tables of the documented samples, without seed files."""
    gateway.register(NATION, NATION_COLUMNS, ["n_nationkey"], seed_file=False)
    gateway.register(REGION, REGION_COLUMNS, ["r_regionkey"], seed_file=False)
    return gateway


def body(samples: Path, *names: str) -> bytes:
    return b"\n".join((samples / "arcion" / f"{name}.json").read_bytes() for name in names)


def test_each_documented_sample_that_is_whole_gets_a_receipt(tpch: Gateway, samples: Path) -> None:
    receipts = []
    for name in ("snapshot_insert", "snapshot_update", "snapshot_delete", "realtime_insert", "realtime_delete"):
        response = tpch.post("/v1/changes/arcion", content=body(samples, name))
        assert response.status_code == 202
        answer = response.json()
        assert (answer["ignored"], answer["replayed"]) == (0, False)
        receipts += answer["receipts"]
    counts = {"generation": 1, "changes": 1, "rows": 1}
    assert receipts == [
        *({"table": NATION, "sequence": number, **counts} for number in (1, 2, 3)),
        *({"table": REGION, "sequence": number, **counts} for number in (1, 2)),
    ]


def test_the_documented_partial_update_is_rejected_because_it_would_erase_a_column(
    tpch: Gateway, samples: Path
) -> None:
    response = tpch.post("/v1/changes/arcion", content=body(samples, "realtime_update"))
    details = problem(response, 422, "incomplete_update")
    assert details["errors"] == [
        {
            "index": 0,
            "pointer": "/after/r_name",
            "code": "incomplete_update",
            "table": REGION,
            "column": "r_name",
            "detail": "the new value is not given",
        }
    ]
    assert tpch.status(REGION)["last_sequence"] == 0


def test_one_request_over_two_tables_gets_a_receipt_for_each(tpch: Gateway, samples: Path) -> None:
    names = ("realtime_insert", "snapshot_insert", "snapshot_update", "realtime_delete")
    response = tpch.post("/v1/changes/arcion", content=body(samples, *names))
    receipts = [(receipt["table"], receipt["sequence"], receipt["changes"]) for receipt in response.json()["receipts"]]
    assert receipts == [(REGION, 1, 2), (NATION, 1, 2)]


def test_the_status_follows_a_batch_from_accepted_to_published(tpch: Gateway, samples: Path) -> None:
    tpch.post("/v1/changes/arcion", content=body(samples, "snapshot_insert", "snapshot_update"))
    counts = {"batches": 1, "changes": 2, "rows": 2}
    status = tpch.status(NATION)
    assert (status["accepted"], status["staged"]) == (counts, counts)
    assert (status["lag"]["batches"], status["lag"]["rows"], status["published"]["files"]) == (1, 2, 0)
    assert status["lag"]["bytes"] > 0
    batch = {"table": NATION, "generation": 1, "sequence": 1, "changes": 2, "rows": 2}
    path = f"/v1/batches/{NATION}/1/1"
    assert tpch.get(path).json() == {**batch, "state": "pending", "file": None}

    owned = owned_now(tpch.engine, NATION)
    [planned] = plan(tpch.engine, owned)
    name = "00000000000000000001.parquet"
    assert tpch.get(path).json() == {**batch, "state": "planned", "file": name}

    publish(tpch.engine, owned, planned)
    assert tpch.get(path).json() == {**batch, "state": "published", "file": name}
    status = tpch.status(NATION)
    assert {**counts, "files": 1}.items() <= status["published"].items()
    assert (status["lag"]["batches"], status["published_through"], status["last_file"]) == (0, 1, name)
    [file] = tpch.get(f"/v1/tables/{NATION}/files").json()["files"]
    assert file.pop("published_at") is not None
    assert file == {
        "number": 1,
        "name": name,
        "state": "published",
        "first_sequence": 1,
        "last_sequence": 1,
        "rows": 2,
        "changes": 2,
        "schema_version": 1,
        "digest": planned.identity.digest,
        "bytes": 10,
    }


def test_the_ledger_is_listed_page_by_page(tpch: Gateway, samples: Path) -> None:
    for _ in range(3):
        tpch.post("/v1/changes/arcion", content=body(samples, "snapshot_insert"))
    plan(tpch.engine, owned_now(tpch.engine, NATION))
    path = f"/v1/tables/{NATION}/files?limit=2"
    first = tpch.get(path).json()
    second = tpch.get(f"{path}&after={first['next_after']}").json()
    assert [[file["number"] for file in page["files"]] for page in (first, second)] == [[1, 2], [3]]
    assert second["next_after"] is None


@pytest.mark.parametrize(
    ("generation", "sequence", "status", "code"),
    [
        (1, 2, 404, "unknown_batch"),
        (2, 1, 404, "unknown_batch"),
        (1, 2**63 - 1, 404, "unknown_batch"),
        (1, 2**63, 400, "bad_request"),
        (2**31, 1, 400, "bad_request"),
        (0, 1, 400, "bad_request"),
        (1, 0, 400, "bad_request"),
        ("x", 1, 400, "bad_request"),
    ],
)
def test_a_batch_that_was_never_accepted_is_unknown(
    tpch: Gateway, samples: Path, generation: object, sequence: int, status: int, code: str
) -> None:
    tpch.post("/v1/changes/arcion", content=body(samples, "snapshot_insert"))
    problem(tpch.get(f"/v1/batches/{NATION}/{generation}/{sequence}"), status, code)


@pytest.mark.parametrize("table", [NATION, NATION.upper()])
def test_the_table_may_be_named_in_the_request_too(tpch: Gateway, samples: Path, table: str) -> None:
    response = tpch.post("/v1/changes/arcion", content=body(samples, "snapshot_insert"), params={"table": table})
    assert response.status_code == 202


def test_bare_rows_of_native_are_snapshot_rows_of_the_named_table(gateway: Gateway) -> None:
    gateway.register("shop.items", {"id": "int64", "name": "string"}, ["id"])
    rows = [{"id": "1", "name": "lamp"}, {"id": "2", "name": "null"}]
    assert "mode=snapshot" in problem(gateway.arcion(*rows), 422, "wrong_endpoint")["remedy"]
    problem(gateway.arcion(*rows, mode="snapshot"), 422, "wrong_endpoint")
    parameters = {"table": "shop.items", "mode": "snapshot"}
    [table] = gateway.arcion(*rows, dry_run=True, **parameters).raise_for_status().json()["tables"]
    assert [[row["__rowMarker__"], row["name"]] for row in table["rows"]] == [[0, "lamp"], [0, None]]
    assert gateway.arcion(*rows, **parameters).json()["receipts"][0]["rows"] == 2
    change = {"tableName": {"namespace": {"schema": "shop"}, "name": "items"}, "opType": "D", "before": {"id": "1"}}
    assert gateway.arcion({"id": "3", "name": "desk"}, change, **parameters).json()["receipts"][0]["changes"] == 2
    problem(gateway.arcion(*rows, **parameters), 409, "reload_requires_recreate")


def test_a_bare_row_that_became_a_dead_letter_is_replayed_as_one(gateway: Gateway) -> None:
    gateway.register("shop.items", {"id": "int64", "n": "int32"}, ["id"], dead_letters="accept").raise_for_status()
    parameters = {"table": "shop.items", "mode": "snapshot", "on_reject": "dead_letter"}
    assert gateway.arcion({"id": "1", "n": "1"}, {"id": "2", "n": "many"}, **parameters).json()["dead_letters"] == 1
    [letter] = gateway.letters("shop.items")
    at = f"/v1/tables/shop.items/dead-letters/{letter['id']}/replay"
    assert gateway.post(at, json={"id": "2", "n": "2"}).status_code == 202


def post_csv(gateway: Gateway, text: str, parameters: dict[str, Any], media_type: str = "text/csv") -> httpx.Response:
    """Post a body of CSV once there is table `t`."""
    gateway.register("t", {"id": "int64", "name": "string"}, ["id"])
    headers = {"Content-Type": f"{media_type}; charset=utf-8"}
    return gateway.post("/v1/changes/arcion", content=text, params=parameters, headers=headers)


SNAPSHOT = {"table": "t", "mode": "snapshot", "columns": "id,name"}
SIGNS = {"table": "t", "mode": "snapshot", "header": True, "delimiter": ";", "quote": "'"}
REALTIME = {"table": "t", "mode": "realtime", "columns": "name,id"}


@pytest.mark.parametrize(
    ("parameters", "text", "rows"),
    [
        (SNAPSHOT, ' 1 ,"a\nb"\n2,NULL\n', 2),
        (SIGNS, "name;id\n'x;y';3\n", 1),
        (REALTIME, 'NULL,NULL,0,NULL,1,2,D,"{""v"":2}","{}"\n', 1),
    ],
    ids=["snapshot", "a header and other signs", "realtime"],
)
def test_csv_is_accepted_in_both_modes(gateway: Gateway, parameters: dict[str, Any], text: str, rows: int) -> None:
    response = post_csv(gateway, text, parameters)
    assert (response.status_code, response.json()["receipts"][0]["rows"]) == (202, rows)


@pytest.mark.parametrize(
    ("parameters", "status", "code"),
    [
        ({"mode": "snapshot", "columns": "id"}, 400, "bad_request"),
        ({"table": "t", "columns": "id"}, 400, "bad_request"),
        ({"table": "t", "mode": "snapshot"}, 422, "columns_required"),
        (SNAPSHOT | {"table": "other"}, 404, "unknown_table"),
        (SNAPSHOT | {"mode": "full"}, 400, "bad_request"),
    ],
    ids=["no table", "no mode", "no columns", "another table", "another mode"],
)
def test_csv_needs_its_table_mode_and_columns(
    gateway: Gateway, parameters: dict[str, str], status: int, code: str
) -> None:
    problem(post_csv(gateway, "1,a\n", parameters), status, code)
    problem(post_csv(gateway, "1,a\n", SNAPSHOT, "text/plain"), 415, "unsupported_media_type")


def test_override_takes_messages_of_another_address_and_wrong_hashes_are_counted(gateway: Gateway) -> None:
    gateway.register("t", {"id": "int64"}, ["id"])
    message = {"tableName": {"name": "u", "hash": 1}, "opType": "I", "exists": {"id": 1}, "after": {"id": 7}}
    before = HASH_MISMATCHES._value.get()
    problem(gateway.arcion(message, table="t"), 422, "table_mismatch")
    assert gateway.arcion(message, table="t", override=True).json()["receipts"][0]["table"] == "t"
    problem(gateway.arcion(message, override=True), 400, "bad_request")
    assert HASH_MISMATCHES._value.get() == before + 2
