"""Replicate requests from the decoder into Postgres: stored metadata and staged rows."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from app.domain.access.rights import Principal, Right
from app.domain.model.names import TableName
from app.errors import Code
from app.ingest import Ingest, IngestResult, ReplicateJson
from app.staging.tables.registry import find_table
from app.staging.tables.replicate_sources import replicate_metadata
from app.staging.writer.group_commit import GroupCommit
from tests.support.rejections import rejected

SAMPLES = Path(__file__).parents[2] / "samples" / "replicate"
ADMIN = Principal("test", frozenset({Right.ADMIN}), ("*",))


@pytest.fixture
def ingest(engine: sa.Engine) -> Iterator[Ingest]:
    writer = GroupCommit(engine)
    writer.start()
    ingest = Ingest(engine, writer)
    yield ingest
    ingest.close()
    writer.close()


def post(ingest: Ingest, messages: Any, principal: Principal = ADMIN, table: str | None = None) -> IngestResult:
    name = TableName.parse(table) if table else None
    return asyncio.run(ingest.accept(ReplicateJson(json.dumps(messages).encode(), name), principal))


def sample(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((SAMPLES / f"{name}.json").read_bytes())
    return content


def stored(engine: sa.Engine, name: str = "S.T") -> dict[str, Any]:
    with engine.begin() as connection:
        table = find_table(connection, TableName.parse(name))
        assert table is not None
        return dict(replicate_metadata(connection, table.table_id) or {})


@pytest.mark.parametrize(
    "name",
    [
        "metadata_adds_column",
        "metadata_both_versions_repeated",
        "metadata_request_repeated",
        "metadata_removes_nullable_column",
        "external_schema_id_same",
        "external_schema_id_changed",
        "metadata_stale",
        "metadata_changes_type",
        "schema_id_of_before",
        "schema_id_unknown",
        "route_by_schema_id",
        "route_request_against_schema_id",
        "envelope_null_body",
    ],
)
def test_the_samples_give_the_same_by_way_of_postgres(ingest: Ingest, name: str) -> None:
    content = sample(name)
    for message in content.get("earlier", []):
        post(ingest, message, table=None if message.get("type") == "MD" else content.get("table"))
    if "error" in content:
        with rejected() as rejection:
            post(ingest, content["messages"], table=content.get("table"))
        assert rejection.code == content["error"]["code"]
        return
    accepted = post(ingest, content["messages"], table=content.get("table"))
    rows = {receipt.table.casefold(): receipt.rows for receipt in accepted.receipts}
    assert rows == {table: len(landed) for table, landed in content["rows"].items()}
    assert accepted.ignored == content.get("ignored", 0)


def test_a_request_whose_data_is_rejected_keeps_its_metadata_and_succeeds_once_repaired(
    ingest: Ingest, engine: sa.Engine
) -> None:
    content = sample("metadata_request_repeated")
    first, second = content["earlier"]
    old, _, new = content["messages"]
    post(ingest, first)
    broken = json.loads(json.dumps(new))
    broken["message"]["data"]["ID"] = "no number"
    with rejected() as rejection:
        post(ingest, [old, second, broken])
    assert rejection.places[0][:2] == (Code.BAD_VALUE, 2)
    assert [version["schema_id"] for version in stored(engine)["earlier"]] == ["one"]
    [receipt] = post(ingest, [old, second, new]).receipts
    assert (receipt.sequence, receipt.rows) == (1, 2)


def test_metadata_is_stored_with_ordinals_and_the_external_schema_id_of_its_data(
    ingest: Ingest, engine: sa.Engine
) -> None:
    metadata, data = sample("external_schema_id_same")["earlier"]
    post(ingest, metadata)
    assert stored(engine)["external_schema_id"] is None
    post(ingest, data)
    post(ingest, metadata)
    found = stored(engine)
    assert (found["schema_id"], found["table_version"], found["external_schema_id"]) == ("one", 1, "77")
    assert found["columns"]["ID"] == {"ordinal": 1, "type": "INT8", "key": True}
    assert found["earlier"] == []


def test_a_rejected_evolution_names_its_message_and_changes_nothing(ingest: Ingest, engine: sa.Engine) -> None:
    content = sample("metadata_changes_type")
    post(ingest, content["earlier"])
    before = stored(engine)
    with rejected() as rejection:
        post(ingest, [{"message": None}, *content["messages"]])
    assert rejection.places == [(Code.INCOMPATIBLE_SCHEMA, 1, "/message/tableStructure", None)]
    assert stored(engine) == before


def test_metadata_of_an_older_program_has_no_ordinals_and_still_routes(ingest: Ingest, engine: sa.Engine) -> None:
    content = sample("mask_full")
    post(ingest, content["earlier"])
    with engine.begin() as connection:
        old = '{"schema_id": "one", "table_version": 1}'
        connection.execute(
            sa.text("UPDATE mirrorgate.tables SET replicate_metadata = CAST(:old AS jsonb)"), {"old": old}
        )
    assert post(ingest, content["messages"]).receipts[0].rows == 1
    post(ingest, content["earlier"])
    assert stored(engine)["columns"]["NAME"]["ordinal"] == 2


def test_metadata_outside_the_callers_tables_is_as_unknown_as_none(ingest: Ingest) -> None:
    content = sample("mask_full")
    post(ingest, content["earlier"])
    stranger = Principal("other", frozenset({Right.ADMIN}), ("else.*",))
    for messages, code in ((content["messages"], Code.SCHEMA_UNKNOWN), (content["earlier"], Code.UNKNOWN_TABLE)):
        with rejected() as rejection:
            post(ingest, messages, stranger)
        assert rejection.code == code
