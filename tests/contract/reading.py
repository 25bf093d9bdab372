"""The committed contract as tests read it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from tools.openapi import CONTRACT

Schema = dict[str, Any]

PROBLEM = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of the contract."""

    method: str
    path: str
    described: dict[str, Any]

    def __str__(self) -> str:
        return str(self.described["operationId"])

    @property
    def parameters(self) -> list[dict[str, Any]]:
        parameters: list[dict[str, Any]] = self.described.get("parameters", [])
        return parameters

    @property
    def bodies(self) -> dict[str, Any]:
        """What may be sent, by content type."""
        content: dict[str, Any] = self.described.get("requestBody", {}).get("content", {})
        return content

    @property
    def responses(self) -> dict[str, Any]:
        responses: dict[str, Any] = self.described["responses"]
        return responses


@dataclass(frozen=True, slots=True)
class Example:
    """A body of the contract that is said to work."""

    operation: Operation
    content_type: str
    name: str
    schema: Schema
    value: Any

    def __str__(self) -> str:
        return f"{self.operation} {self.content_type} {self.name}"


@cache
def load_contract() -> dict[str, Any]:
    contract: dict[str, Any] = yaml.load(CONTRACT.read_text(encoding="utf-8"), yaml.CSafeLoader)  # 15 times as fast
    return contract


def operations(contract: dict[str, Any]) -> list[Operation]:
    return [
        Operation(method.upper(), path, described)
        for path, methods in contract["paths"].items()
        for method, described in methods.items()
    ]


def resolved(contract: dict[str, Any], node: Any) -> Any:
    """Return what a reference refers to; anything else unchanged."""
    if not isinstance(node, dict) or "$ref" not in node:
        return node
    target: Any = contract
    for part in node["$ref"].removeprefix("#/").split("/"):
        target = target[part]
    return target


def examples(contract: dict[str, Any]) -> Iterator[Example]:
    """Yield the examples of each body: those beside its schema, and those of the component that it refers to."""
    for operation in operations(contract):
        for content_type, body in operation.bodies.items():
            schema = body.get("schema", {})
            named = {name: example["value"] for name, example in body.get("examples", {}).items()}
            choices = [schema, *schema.get("anyOf", [])]
            listed = [value for choice in choices for value in resolved(contract, choice).get("examples", [])]
            numbered = {f"{number}": value for number, value in enumerate(listed, 1)}
            for name, value in (numbered | named).items():
                yield Example(operation, content_type, name, schema, value)


def schemas_within(node: Any, where: str) -> Iterator[tuple[str, Schema]]:
    """Yield every schema below a schema, itself included, with its place."""
    if not isinstance(node, dict):
        return
    yield where, node
    for name, member in node.get("properties", {}).items():
        yield from schemas_within(member, f"{where}.{name}")
    for word in ("items", "additionalProperties"):
        yield from schemas_within(node.get(word), f"{where}.{word}")
    for word in ("anyOf", "oneOf", "allOf"):
        for number, choice in enumerate(node.get(word, [])):
            yield from schemas_within(choice, f"{where}.{word}[{number}]")


def validator(contract: dict[str, Any], schema: Schema) -> Draft202012Validator:
    """Check values against a schema whose references lead into the contract."""
    return Draft202012Validator({**schema, "components": contract["components"]})


def mistakes(contract: dict[str, Any], schema: Schema, value: Any) -> list[str]:
    """Return what is wrong with a value by a schema of the contract."""
    return [error.message for error in validator(contract, schema).iter_errors(value)]


def references(node: Any) -> set[str]:
    """Return the names of all components that are referred to anywhere below."""
    return set(re.findall(r"'#/components/(\w+/[\w-]+)'", repr(node)))
