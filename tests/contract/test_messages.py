"""Every message and layout that the gateway accepts is valid by the contract's types, and most others are not."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from app.formats.arcion.messages import ArcionMessage, Namespace, TableAddress
from app.formats.replicate.metadata import ColumnFacts, Lineage, TableStructure
from app.formats.replicate.standard_form import Headers
from app.ingest import WrongLayout, read_layout
from tests.contract.reading import load_contract, mistakes, validator
from tests.support.processes import REPOSITORY

CONTRACT = load_contract()


def accepted(source_format: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield the name of each sample that is accepted, and its messages."""
    for path in sorted((REPOSITORY / "tests" / "samples" / source_format).glob("*.json")):
        sample = json.loads(path.read_bytes())
        if "messages" in sample and not sample.keys() & {"error", "errors"}:
            yield path.stem, [*sample.get("earlier", []), *sample["messages"]]
    for path in sorted((REPOSITORY / "demo" / "samples" / source_format).glob("*.json")):
        yield path.stem, [json.loads(path.read_bytes())]


def body_schema(source_format: str) -> dict[str, Any]:
    operation = CONTRACT["paths"][f"/v1/changes/{source_format}"]["post"]
    schema: dict[str, Any] = operation["requestBody"]["content"]["application/json"]["schema"]
    return schema


SAMPLES = [(name, *sample) for name in ("arcion", "replicate") for sample in accepted(name)]


@pytest.mark.parametrize(("source_format", "name", "messages"), SAMPLES, ids=lambda value: str(value)[:60])
def test_a_sample_that_is_accepted_fits_the_contract(source_format: str, name: str, messages: list[Any]) -> None:
    body = [one for message in messages for one in (message if isinstance(message, list) else [message])]
    assert mistakes(CONTRACT, body_schema(source_format), body) == []


def test_a_native_message_and_a_row_of_a_snapshot_fit_the_contract() -> None:
    change = {"tableName": {"name": "t"}, "opType": "U", "before": {"id": 1}, "after": {"n": "a"}}
    for body in (change, {"id": "1", "n": None}, [change, {"id": "1", "n": None}]):
        assert mistakes(CONTRACT, body_schema("arcion"), body) == []


@pytest.mark.parametrize(
    ("source_format", "message"),
    [
        ("arcion", {"opType": "I", "exists": {}}),
        ("arcion", {"tableName": {"name": "t"}, "opType": "X", "exists": {}}),
        ("arcion", {"tableName": {"name": "t"}, "opType": "I", "exists": {"id": "7"}}),
        ("replicate", {"magic": "other", "message": None}),
        ("replicate", {"data": [1]}),
        ("replicate", {"headers": {"changeSequence": ""}, "data": {}}),
    ],
)
def test_a_message_that_no_gateway_accepts_does_not_fit(source_format: str, message: Any) -> None:
    assert mistakes(CONTRACT, body_schema(source_format), [message])


DECODED = {
    "ArcionMessage": ArcionMessage,
    "ArcionTableName": TableAddress,
    "ArcionNamespace": Namespace,
    "ReplicateLineage": Lineage,
    "ReplicateColumn": ColumnFacts,
    "ReplicateTableStructure": TableStructure,
    "ReplicateHeaders": Headers,
}
"""What the exact path decodes, by the schema that describes it."""


@pytest.mark.parametrize("name", DECODED)
def test_the_contract_describes_every_key_that_is_read(name: str) -> None:
    schema = CONTRACT["components"]["schemas"][name]
    fields = msgspec.structs.fields(DECODED[name])
    assert {field.encode_name for field in fields} == schema["properties"].keys()
    assert {field.encode_name for field in fields if field.required} <= {*schema.get("required", ())}


SCHEMA = validator(CONTRACT, CONTRACT["components"]["schemas"]["LayoutModel"])
STEPS = "/".join(["a"] * 8)


@pytest.mark.parametrize(
    "place",
    ["*", "a", "a.b", "a.*", "a_*", "/", "//", "/a", "/a.b/c", "/a/b_*", "/*", "a/b", f"/{STEPS}", f"/{STEPS}/*"],
)
def test_a_place_fits_the_contract_if_it_is_one(place: str) -> None:
    layout = {"data": place, "operation": "the_operation"}
    assert SCHEMA.is_valid(layout) == is_accepted(layout)


@pytest.mark.parametrize(
    "layout",
    [
        {},
        {"data": "a"},
        {"data": "", "operation": "op"},
        {"data": "a..b", "operation": "op"},
        {"data": ".a", "operation": "op"},
        {"data": "a.", "operation": "op"},
        {"data": "/a//b", "operation": "op"},
        {"data": "a\x00", "operation": "op"},
        {"data": ".".join(["a"] * 10), "operation": "op"},
        {"data": "a", "operation": "op", "other": "b"},
        {"data": "a", "operation": "op", "operations": {"": "insert"}},
        {"data": "a", "operation": "op", "operations": {"x" * 65: "insert"}},
        {"data": "a", "operation": "op", "operations": {str(number): "insert" for number in range(65)}},
        {"data": "a", "operation": "op", "operations": {"I": "merge"}},
    ],
)
def test_a_layout_that_is_not_valid_does_not_fit_the_contract(layout: dict[str, Any]) -> None:
    assert not is_accepted(layout)
    assert not SCHEMA.is_valid(layout)


def is_accepted(layout: dict[str, Any]) -> bool:
    try:
        read_layout(layout)
    except WrongLayout:
        return False
    return True
