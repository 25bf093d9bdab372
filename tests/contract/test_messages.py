"""Every message that the gateway accepts is valid by the contract's types."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from app.formats.arcion.messages import ArcionMessage, Namespace, TableAddress
from app.formats.replicate.metadata import ColumnFacts, Lineage, TableStructure
from app.formats.replicate.standard_form import Headers
from tests.contract.reading import load_contract, validator
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


def flat(messages: list[Any]) -> Iterator[Any]:
    """Return the messages of a sample; earlier requests are lists of messages."""
    for message in messages:
        if isinstance(message, list):
            yield from message
        else:
            yield message


def body_schema(source_format: str) -> dict[str, Any]:
    operation = CONTRACT["paths"][f"/v1/changes/{source_format}"]["post"]
    schema: dict[str, Any] = operation["requestBody"]["content"]["application/json"]["schema"]
    return schema


SAMPLES = [(name, *sample) for name in ("arcion", "replicate") for sample in accepted(name)]


@pytest.mark.parametrize(("source_format", "name", "messages"), SAMPLES, ids=lambda value: str(value)[:60])
def test_a_sample_that_is_accepted_fits_the_contract(source_format: str, name: str, messages: list[Any]) -> None:
    body = list(flat(messages))
    errors = validator(CONTRACT, body_schema(source_format)).iter_errors(body)
    assert [error.message for error in errors] == []


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
    assert list(validator(CONTRACT, body_schema(source_format)).iter_errors([message]))


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
