"""What pydantic found wrong with a parameter or a JSON body, in the API's own words. No text of the caller's values."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import Request

_WORDS: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "model_attributes_type": "must be a JSON object",
    "dict_type": "must be a JSON object",
    "list_type": "must be an array",
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
}
_MOST_SHOWN: Final = 64


def words_of(request: Request, issue: Mapping[str, Any]) -> str:
    """What is wrong at the place of the issue; an unknown member is named, with the known ones."""
    kind, (where, *path) = str(issue["type"]), issue["loc"]
    if kind == "extra_forbidden":
        known = ", ".join(sorted(_members(request, path[:-1]))) if where == "body" else ""
        return f"unknown member `{shown(str(path[-1]))}`" + (f"; known: {known}" if known else "")
    if kind in _WORDS:
        return _WORDS[kind]
    text = str(issue["msg"]).removeprefix("Value error, ")
    return "must" + text.removeprefix("Input should") if text.startswith("Input should") else text


def shown(name: str) -> str:
    """A name of the caller's as an answer may repeat it: short, and without what is not printable."""
    kept = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name)
    return kept if len(kept) <= _MOST_SHOWN else kept[:_MOST_SHOWN] + "…"


def _members(request: Request, path: Sequence[int | str]) -> set[str]:
    """The names that the contract gives the members of an object within the body of this request."""
    contract = request.app.openapi()
    route: Any = request.scope.get("route")
    operation = contract["paths"].get(getattr(route, "path", ""), {}).get(request.method.lower(), {})
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    schemas = [content.get("schema", {})]
    for step in path:
        schemas = [inner for schema in _choices(contract, schemas) for inner in _within(schema, step)]
    return {name for schema in _choices(contract, schemas) for name in schema.get("properties", {})}


def _choices(contract: Mapping[str, Any], schemas: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The schemas themselves, where some are references or choices."""
    found: list[Mapping[str, Any]] = []
    for schema in schemas:
        if "$ref" in schema:
            schema = contract["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        parts = [part for word in ("anyOf", "oneOf", "allOf") for part in schema.get(word, ())]
        found += [schema, *_choices(contract, parts)]
    return found


def _within(schema: Mapping[str, Any], step: int | str) -> list[Mapping[str, Any]]:
    if isinstance(step, int):
        return [schema["items"]] if "items" in schema else []
    named = schema.get("properties", {}).get(step)
    others = schema.get("additionalProperties")
    return [one for one in (named, others) if isinstance(one, dict)]
