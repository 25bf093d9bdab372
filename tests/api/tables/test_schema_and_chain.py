"""A table's schema for people and programs, and the metadata chain that records it."""

import base64
from datetime import datetime

import pyarrow as pa
import pytest

from app.domain.arrow import schema_from_bytes, schema_to_flatbuffer
from app.domain.model.table_schema import row_marker_field
from app.domain.publication import ChainBlock, verify_chain
from tests.api.calls import Gateway, problem
from tests.api.commands import Terminal

FLATBUFFER = "application/vnd.apache.arrow.schema"
ARROW = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("paid", pa.decimal128(12, 2))])


def chain(gateway: Gateway, table: str, **parameters: int) -> list[ChainBlock]:
    answer = gateway.get(f"/v1/tables/{table}/chain", params=parameters).raise_for_status().json()
    return [
        ChainBlock(b["sequence_number"], b["previous_hash"], datetime.fromisoformat(b["system_time"]), b["event"])
        for b in answer["blocks"]
    ]


@pytest.mark.parametrize("content", [schema_to_flatbuffer(ARROW), ARROW.serialize().to_pybytes()])
def test_a_table_is_registered_by_an_arrow_schema_in_either_form(gateway: Gateway, content: bytes) -> None:
    wanted = {"key_columns": ["id"], "arrow_schema": base64.b64encode(content).decode()}
    assert gateway.put("/v1/tables/t", json=wanted).status_code == 201
    assert gateway.get("/v1/tables/t/schema").json()["columns"] == [
        {"name": "id", "type": "int64", "nullable": False},
        {"name": "paid", "type": "decimal(12,2)", "nullable": True},
    ]


def test_the_served_flatbuffer_is_the_schema_of_the_landing_files_and_changes_nothing(gateway: Gateway) -> None:
    gateway.register("t", {"id": "int64", "paid": "decimal(12,2)"}, ["id"])
    answer = gateway.get("/v1/tables/t/schema", headers={"Accept": FLATBUFFER})
    assert answer.headers["content-type"] == FLATBUFFER
    assert schema_from_bytes(answer.content) == ARROW.append(row_marker_field())
    wanted = {"key_columns": ["id"], "arrow_schema": base64.b64encode(answer.content).decode()}
    assert gateway.put("/v1/tables/t", json=wanted).json()["schema_version"] == 1


@pytest.mark.parametrize(
    "wanted",
    [
        {"arrow_schema": "not base64!"},
        {"arrow_schema": "bäse64"},
        {"arrow_schema": base64.b64encode(b"no schema").decode()},
        {"arrow_schema": base64.b64encode(schema_to_flatbuffer(ARROW)).decode(), "columns": []},
        {},
    ],
)
def test_what_is_no_schema_is_rejected(gateway: Gateway, wanted: dict[str, object]) -> None:
    problem(gateway.put("/v1/tables/t", json=wanted), 422, "bad_schema")


def test_the_chain_begins_with_seed_and_schema_and_grows_with_each_schema_version(gateway: Gateway) -> None:
    gateway.register("t", {"id": "int64"}, ["id"])
    gateway.register("t", {"id": "int64"}, ["id"])
    gateway.register("t", {"id": "int64", "note": "string"}, ["id"])
    blocks = chain(gateway, "t")
    assert [block.event["kind"] for block in blocks] == ["Seed", "SetDataSchema", "SetDataSchema"]
    assert verify_chain(blocks) == 3
    assert schema_from_bytes(base64.b64decode(blocks[2].event["schema"])).names == ["id", "note", "__rowMarker__"]


def test_the_chain_is_read_in_pages(gateway: Gateway) -> None:
    gateway.register("t", {"id": "int64"}, ["id"])
    first = gateway.get("/v1/tables/t/chain", params={"limit": 1}).json()
    assert (len(first["blocks"]), first["next_start"]) == (1, 1)
    assert [block.sequence_number for block in chain(gateway, "t", start=1)] == [1]


def test_each_schema_event_is_presented_in_human_readable_format(gateway: Gateway, terminal: Terminal) -> None:
    """schema-16: "leave it up to implementations to present in human-readable format"."""
    gateway.register("t", {"id": "int64"}, ["id"])
    gateway.register("t", {"id": "int64", "note": "string", "total": "decimal(12,2)"}, ["id"])
    blocks = gateway.get("/v1/tables/t/chain").json()["blocks"]
    assert [(block["changes"], block["columns"] and [one["name"] for one in block["columns"]]) for block in blocks] == [
        (None, None),
        (["1 columns", "files have a row marker from here on"], ["id"]),
        (["added: note string, total decimal(12,2)"], ["id", "note", "total"]),
    ]
    [last] = gateway.get("/v1/tables/t/chain", params={"start": 2}).json()["blocks"]
    assert last == blocks[2]
    lines = terminal.run("tables", "chain", "t").output.splitlines()
    assert lines[-5:] == [
        "block 2: added: note string, total decimal(12,2)",
        "column  type           null",
        "id      int64          no",
        "note    string         yes",
        "total   decimal(12,2)  yes",
    ]
