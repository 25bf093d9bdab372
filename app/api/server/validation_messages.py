"""Words the errors of pydantic for the caller. The messages never contain a value that the caller sent."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import Request

_MESSAGES: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "model_attributes_type": "must be a JSON object",
    "dataclass_type": "must be a JSON object",
    "dict_type": "must be a JSON object",
    "list_type": "must be an array",
    "tuple_type": "must be an array",
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
}
UNKNOWN_KEYS: Final = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
"""The types of issues about a key that a model or a dataclass does not have."""
_MAX_NAME_CHARACTERS: Final = 64


def describe_issue(request: Request, issue: Mapping[str, Any]) -> str:
    """Return what is wrong at the location of the issue. For an unknown key, list the known ones."""
    kind, (location, *path) = str(issue["type"]), issue["loc"]
    if kind in UNKNOWN_KEYS:
        known = ", ".join(sorted(_known_keys(request, path[:-1]))) if location == "body" else ""
        return f"unknown key `{printable_name(str(path[-1]))}`" + (f"; known: {known}" if known else "")
    if kind in _MESSAGES:
        return _MESSAGES[kind]
    text = str(issue["msg"]).removeprefix("Value error, ")
    return "must" + text.removeprefix("Input should") if text.startswith("Input should") else text


def printable_name(name: str) -> str:
    """Return a caller's name as an answer can repeat it: at most 64 characters, all of them printable."""
    kept = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name)
    return kept if len(kept) <= _MAX_NAME_CHARACTERS else kept[:_MAX_NAME_CHARACTERS] + "…"


def missing_parameter_remedy(request: Request, name: str) -> str | None:
    """Return what the contract says that a missing parameter is; None for one that it does not describe."""
    described = [one for one in _operation(request).get("parameters", ()) if one["name"] == name]
    return f"Give the parameter `{name}`. {described[0]['description']}" if described else None


def _operation(request: Request) -> Mapping[str, Any]:
    """Return what the contract says about the route of a request."""
    route: Any = request.scope.get("route")
    operation: Mapping[str, Any] = (
        request.app.openapi()["paths"].get(getattr(route, "path", ""), {}).get(request.method.lower(), {})
    )
    return operation


def _known_keys(request: Request, path: Sequence[int | str]) -> set[str]:
    """Return the keys that the contract gives an object at this path of the request's body."""
    contract, operation = request.app.openapi(), _operation(request)
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    schemas = [content.get("schema", {})]
    for step in path:
        schemas = [inner for schema in _alternatives(contract, schemas) for inner in _subschemas(schema, step)]
    return {name for schema in _alternatives(contract, schemas) for name in schema.get("properties", {})}


def _alternatives(contract: Mapping[str, Any], schemas: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the schemas with references resolved, and the parts of those that combine others."""
    found: list[Mapping[str, Any]] = []
    for schema in schemas:
        if "$ref" in schema:
            schema = contract["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        parts = [part for word in ("anyOf", "oneOf", "allOf") for part in schema.get(word, ())]
        found += [schema, *_alternatives(contract, parts)]
    return found


def _subschemas(schema: Mapping[str, Any], step: int | str) -> list[Mapping[str, Any]]:
    if isinstance(step, int):
        return [schema["items"]] if "items" in schema else []
    named = schema.get("properties", {}).get(step)
    others = schema.get("additionalProperties")
    return [one for one in (named, others) if isinstance(one, dict)]
