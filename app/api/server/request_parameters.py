"""Query parameters and headers of the change endpoints, read without FastAPI's dependency injection, and their names.

FastAPI takes 0.3 ms to look for a dozen parameters and to solve what depends on them: half the cost of a small
request, and most requests give none of them. The same models describe the parameters in the contract.
"""

from collections.abc import Iterator, Mapping, Set
from functools import cache
from typing import Any, Literal, TypeVar

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, ValidationError

from app.api.server.problem_responses import printable_name
from mirrorgate.errors import Code, RejectedInput

ParameterLocation = Literal["query", "header"]


class Parameters(BaseModel):
    """Optional parameters of one location; the aliases of the fields are their names in the request."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


ParametersT = TypeVar("ParametersT", bound=Parameters)


def read_parameters(model: type[ParametersT], location: ParameterLocation, given: Mapping[str, str]) -> ParametersT:
    """Return the given parameters, with defaults for the others. Raises FastAPI's RequestValidationError."""
    names = _names(model, location)
    if names.keys().isdisjoint(given):
        defaults: ParametersT = _defaults(model)
        return defaults
    try:
        return model.model_validate({name: given[key] for key, name in names.items() if key in given})
    except ValidationError as error:
        issues = [{**issue, "loc": (location, *issue["loc"])} for issue in error.errors()]
        raise RequestValidationError(issues) from None


def check_query_names(given: Mapping[str, str], known: Set[str], *, only_csv: Set[str] = frozenset()) -> None:
    """Raise RejectedInput `bad_request` for a query parameter that the endpoint, or its body's format, does not have.

    Without this check, a misspelled `dry_run` would do what it was meant to try.
    """
    for name in given:
        if name in only_csv:
            raise RejectedInput(Code.BAD_REQUEST, f"the parameter `{name}` requires the content type text/csv")
        if name not in known:
            detail = f"unknown query parameter `{printable_name(name)}`; known: " + (", ".join(sorted(known)) or "none")
            raise RejectedInput(Code.BAD_REQUEST, detail)


async def require_known_query(request: Request) -> None:
    """Check the names of the query parameters of a framework route, as a dependency of all routes of the contract.

    Raises RejectedInput `bad_request`.
    """
    route = request.scope.get("route")
    if request.query_params and isinstance(route, APIRoute):
        check_query_names(request.query_params, {*_names_of(route.dependant)})


def _names_of(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _names_of(inner)


def openapi_parameters(model: type[Parameters], location: ParameterLocation) -> list[dict[str, Any]]:
    """Return the parameters as an OpenAPI operation lists them."""
    schema = model.model_json_schema()
    described = []
    for name, field in schema["properties"].items():
        content = _inline_references(field, schema.get("$defs", {}))
        content.pop("title", None)
        required = content.pop("required", False)
        entry = {
            "name": name,
            "in": location,
            "required": required,
            "description": " ".join(field["description"].split()),
        }
        described.append({**entry, "schema": content})
    return described


def _inline_references(value: Any, definitions: Mapping[str, Any]) -> Any:
    """Return a part of a schema with its references replaced by their targets, and without descriptions."""
    if isinstance(value, list):
        return [_inline_references(part, definitions) for part in value]
    if not isinstance(value, dict):
        return value
    target = definitions[value["$ref"].rpartition("/")[2]] if "$ref" in value else {}
    kept = {name: part for name, part in (target | value).items() if name not in {"$ref", "description"}}
    return {name: _inline_references(part, definitions) for name, part in kept.items()}


@cache
def _defaults(model: type[ParametersT]) -> ParametersT:
    """Return one instance that all requests share; it is frozen."""
    return model()


@cache
def _names(model: type[Parameters], location: ParameterLocation) -> Mapping[str, str]:
    """Return the names of the parameters by their key in the request: header names are in lower case there."""
    names = [field.alias or name for name, field in model.model_fields.items()]
    return {name.lower() if location == "header" else name: name for name in names}
