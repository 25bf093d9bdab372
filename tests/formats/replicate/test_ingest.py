"""Replicate requests by way of Postgres and in memory: samples, source versions, and any bytes."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.access.rights import Principal, Right
from app.domain.model.names import TableName
from app.formats.replicate.history import MAX_EARLIER_VERSIONS, SourceHistory, extend, with_external_ids
from app.formats.replicate.messages import decode_replicate
from app.formats.replicate.metadata import MetadataMessage
from app.ingest import Ingest, IngestResult, ReplicateJson
from app.staging.tables.replicate_sources import replicate_metadata
from mirrorgate.errors import Code, RejectedInput
from tests.formats.replicate.tables_in_memory import Tables
from tests.support.gateway_parts import current
from tests.support.ingest_harness import ADMIN, open_harness
from tests.support.postgres import sql
from tests.support.rejections import rejected
from tests.support.samples.messages import metadata as metadata_message
from tests.support.samples.schemas import schema_of

SAMPLES = Path(__file__).parents[2] / "samples" / "replicate"


@pytest.fixture
def ingest(engine: sa.Engine) -> Iterator[Ingest]:
    with open_harness(engine) as harness:
        yield harness.ingest


def post(ingest: Ingest, messages: Any, principal: Principal = ADMIN, table: str | None = None) -> IngestResult:
    name = TableName.parse(table) if table else None
    return asyncio.run(ingest.accept(ReplicateJson(json.dumps(messages).encode(), name), principal))


def sample(name: str) -> dict[str, Any]:
    return json.loads((SAMPLES / f"{name}.json").read_bytes())


def stored(engine: sa.Engine, name: str = "S.T") -> dict[str, Any]:
    return dict(sql.call(engine, replicate_metadata, current(engine, name).table_id) or {})


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
        with rejected(Code(content["error"]["code"])):
            post(ingest, content["messages"], table=content.get("table"))
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
    with rejected(places=[(Code.INCOMPATIBLE_SCHEMA, 1, "/message/tableStructure", None)]):
        post(ingest, [{"message": None}, *content["messages"]])
    assert stored(engine) == before


def test_metadata_of_an_older_program_has_no_ordinals_and_still_routes(ingest: Ingest, engine: sa.Engine) -> None:
    content = sample("mask_full")
    post(ingest, content["earlier"])
    old = '{"schema_id": "one", "table_version": 1}'
    sql.run(engine, "UPDATE mirrorgate.tables SET replicate_metadata = CAST(:old AS jsonb)", old=old)
    assert post(ingest, content["messages"]).receipts[0].rows == 1
    post(ingest, content["earlier"])
    assert stored(engine)["columns"]["NAME"]["ordinal"] == 2


def test_metadata_outside_the_callers_tables_is_as_unknown_as_none(ingest: Ingest) -> None:
    content = sample("mask_full")
    post(ingest, content["earlier"])
    stranger = Principal("other", frozenset({Right.ADMIN}), ("else.*",))
    for messages, code in ((content["messages"], Code.SCHEMA_UNKNOWN), (content["earlier"], Code.UNKNOWN_TABLE)):
        with rejected(code):
            post(ingest, messages, stranger)


def metadata(*versions: tuple[str, int]) -> Sequence[MetadataMessage]:
    """MD messages of one table with these schema ids and table versions."""
    messages = [metadata_message("t", {"a": "INT4"}, ("a",), schema_id=name, version=n) for name, n in versions]
    return decode_replicate(json.dumps(messages).encode()).metadata


def ids(history: SourceHistory) -> list[str | None]:
    return [version.schema_id for version in history.versions]


def test_a_few_earlier_versions_are_kept() -> None:
    newest = MAX_EARLIER_VERSIONS + 5
    history = extend(None, metadata(*((str(number), number) for number in range(newest + 1))))
    assert ids(history) == [str(number) for number in range(newest - MAX_EARLIER_VERSIONS, newest + 1)]


def test_a_repeated_message_or_request_changes_nothing() -> None:
    history = extend(None, metadata(("one", 1)))
    assert extend(history, metadata(("one", 1), ("one", 1))) == history
    history = extend(extend(None, metadata(("one", 1))), metadata(("two", 2), ("three", 3)))
    assert extend(history, metadata(("one", 1), ("two", 2), ("three", 3))) == history
    assert extend(history, metadata(("two", 2), ("three", 3))) == history


def test_another_schema_id_of_the_same_table_version_is_a_new_version() -> None:
    history = extend(extend(None, metadata(("one", 1))), metadata(("other", 1)))
    assert ids(history) == ["one", "other"]


def test_a_version_that_comes_back_keeps_its_external_schema_id() -> None:
    history = extend(None, metadata(("one", 1), ("other", 1)))
    history = with_external_ids(history, {("one", 1, "srv/task"): "77"})
    again = extend(history, metadata(("one", 1)))
    assert ids(again) == ["other", "one"]
    assert again.current.external_schema_id == "77"


def test_an_external_schema_id_is_adopted_once() -> None:
    adopted = {("one", 1, "srv/task"): "77", ("two", 2, "srv/task"): "79"}
    history = with_external_ids(extend(None, metadata(("one", 1))), adopted)
    assert with_external_ids(history, {("one", 1, "srv/task"): "78"}) == history
    assert history.current == replace(history.current, external_schema_id="77")


def test_what_is_stored_is_read_back() -> None:
    history = with_external_ids(extend(None, metadata(("one", 1), ("two", 2))), {("two", 2, "srv/task"): "77"})
    text = msgspec.json.encode(history.to_json())
    assert SourceHistory.from_json(msgspec.json.decode(text)) == history


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_messages_give_these_rows_or_this_error(path: Path) -> None:
    """`declared` tables were registered by PUT; `earlier` are the messages of requests before, one each."""
    sample: dict[str, Any] = json.loads(path.read_bytes())
    tables = Tables()
    for name, declared in sample.get("declared", {}).items():
        tables.schemas[name.casefold()] = schema_of(declared["columns"], declared.get("keys", []))
    for message in sample.get("earlier", []):
        tables.post(json.dumps(message).encode(), sample.get("table"))
    body = json.dumps(sample["messages"]).encode()
    if "error" not in sample:
        rows, ignored = tables.post(body, sample.get("table"))
        assert (rows, ignored) == (sample["rows"], sample.get("ignored", 0))
        return
    with rejected() as rejection:
        tables.post(body, sample.get("table"))
    expected = {"index": None, "pointer": None, "column": None} | sample["error"]
    places = rejection.places or [(rejection.code, None, None, None)]
    fields = ("code", "index", "pointer", "column")
    assert dict(zip(fields, places[0], strict=True)) == expected
    assert len(places) == sample.get("problems", 1)


CONVERSATIONS = [json.loads(path.read_bytes()) for path in sorted(SAMPLES.glob("[!t]*.json"))]
TEXTS = st.text(max_size=4) | st.sampled_from(["0F", "10", "00", "one", "two", "UPDATE", "DELETE", "NUMERIC", "UINT8"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every key and element, the outermost first."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for name, inner in members for place in ((*path, name), *places(inner, (*path, name)))]


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[Any], bytes]:
    """Draw earlier messages, and a request with keys or bytes that no tool wrote."""
    sample = json.loads(json.dumps(draw(st.sampled_from(CONVERSATIONS))))
    messages = sample["messages"]
    for _ in range(draw(st.integers(0, 2))):
        *outer, name = draw(st.sampled_from(places(messages) or [(0,)]))
        parent = messages
        for step in outer:
            parent = parent[step]
        if len(parent):
            parent[name] = json.loads(json.dumps(draw(VALUES | st.sampled_from(sample["messages"]))))
    text = json.dumps(messages).encode()
    if draw(st.booleans()):
        start = draw(st.integers(0, len(text)))
        text = text[:start] + draw(st.binary(max_size=3)) + text[start + draw(st.integers(0, 3)) :]
    return sample.get("earlier", []), text


@given(requests(), st.sampled_from([None, "S.T"]))
@example(([], b'{"headers":{"operation":"INSERT","columnMask":"' + b"F" * 100_000 + b'"},"data":{}}'), "t")
@example(
    ([], b'{"tableStructure":{"tableColumns":{"a":{"ordinal":999999999999,"type":""}}},"lineage":{"table":"t"}}'), "t"
)
@example(
    (
        [{"tableStructure": {"tableColumns": {"a": {"ordinal": 1, "type": "UINT8"}}}, "lineage": {"table": "t"}}],
        b'{"headers":{"operation":"INSERT"},"data":{"a":1e-99999999}}',
    ),
    "t",
)
def test_no_bytes_give_anything_but_rows_or_a_rejection(sent: tuple[list[Any], bytes], table: str | None) -> None:
    earlier, body = sent
    tables = Tables()
    for message in earlier:
        tables.post(json.dumps(message).encode())
    try:
        tables.post(body, table)
    except RejectedInput as rejection:
        assert str(rejection.code)
