"""The FastAPI application class whose contract is complete, and the pages that show the contract.

`GatewayApp` adds to FastAPI's contract what that cannot derive: servers, tags, problems and headers of every answer. It
also simplifies schemas for generators of clients.

`swagger` shows the contract with Swagger UI at `/docs`, and `redoc` with Redoc at `/redoc`. All scripts are served from
this package, so the pages work without internet access, and no other server supplies a script to a page into which a
user types a key. `static/README.md` lists the origin of the files. `root` redirects `/` to the console, or to `/docs`
if it is off.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.gateway import Gateway
from app.api.openapi.message_bodies import COMPONENTS, message_schemas
from app.api.schemas.common import ProblemModel
from app.api.schemas.registered_table import RegisteredTableModel
from app.api.schemas.status import TableModel
from app.api.server.problem_responses import CHALLENGES
from app.domain.model.table_options import CHOSEN_AT_CREATION, TableOptions

PROBLEM: Final = "application/problem+json"
JSON: Final = "application/json"
RECORDED_ANSWERS: Final = Path(__file__).with_name("answers.yaml")
"""An answer of a real gateway for each operation and status; tests/contract/test_recorded_answers.py writes it."""

_CONTRACT: Final[dict[str, Any]] = msgspec.yaml.decode(Path(__file__).with_name("contract.yaml").read_bytes())
"""What FastAPI cannot derive, in the form of the contract."""
HEADERS: Final[dict[str, Any]] = _CONTRACT["headers"]
HEADERS["WWW-Authenticate"]["schema"]["examples"] = [CHALLENGES]

_NAME_MAPS: Final = frozenset({"properties", "schemas", "paths", "headers", "$defs"})
_OUTSIDE_PARAMETER_SCHEMAS: Final = frozenset({"default", "description", "title"})
_UNDESCRIBED: Final = "Successful Response"
"""Description that the framework writes for an answer without one."""

_RETRIABLE: Final = frozenset({429, 503})


def error_response(description: str) -> dict[str, Any]:
    """Return a response with problem details."""
    schema = {"$ref": COMPONENTS + "ProblemModel"}
    return {"description": description, "content": {PROBLEM: {"schema": schema}}}


def drop_framework_errors(operation: dict[str, Any]) -> None:
    """Give problem details their media type, and drop FastAPI's own 422, which the application answers as a 400."""
    responses = operation["responses"]
    for status, response in list(responses.items()):
        content = response.get("content", {})
        for media_type, described in list(content.items()):
            match described.get("schema", {}).get("$ref", "").rpartition("/")[2]:
                case "ProblemModel":
                    content[PROBLEM] = content.pop(media_type)
                case "HTTPValidationError":
                    del responses[status]


def describe_successes(operation: dict[str, Any], schemas: Mapping[str, Any]) -> None:
    """Describe the answers that the framework calls a successful response by the first sentence of their model."""
    for response in operation["responses"].values():
        if response["description"] == _UNDESCRIBED:
            content = response.get("content", {}).values()
            names = (described.get("schema", {}).get("$ref", "").rpartition("/")[2] for described in content)
            models = (schemas[name]["description"] for name in names if name in schemas)
            sentence, *_ = re.split(r"\.(?:\s|$)", next(models, "Done; the answer has no body"))
            response["description"] = " ".join(sentence.split())


@cache
def recorded_answers() -> dict[str, Any]:
    """Return the recorded answers by operation id and status, such as `get_table 200`."""
    answers: dict[str, Any] = msgspec.yaml.decode(RECORDED_ANSWERS.read_bytes())
    return answers


def show_answers(operation: dict[str, Any]) -> None:
    """Add the recorded answers of an operation as examples."""
    for status, response in operation["responses"].items():
        answer = recorded_answers().get(f"{operation['operationId']} {status}")
        if answer is not None:
            response["content"][JSON]["example"] = answer


def add_response_headers(status: int, response: dict[str, Any]) -> None:
    """Add the headers of an answer with this status to those that its route declares."""
    names = ["X-Request-Id"]
    if status == 401:
        names.append("WWW-Authenticate")
    if status in _RETRIABLE and PROBLEM in response.get("content", {}):
        names.append("Retry-After")
    if status == 429:
        names += ["RateLimit-Policy", "RateLimit"]
    headers = response.setdefault("headers", {})
    for name in [*headers, *names]:
        if name in HEADERS:
            headers[name] = {"$ref": f"#/components/headers/{name}"}


def simplify_schema(node: Any, *, named: bool = False) -> Any:
    """Return the contract without titles, with defaults as text, and without null for optional parameters.

    A generated client would otherwise send the default of a parameter even if another parameter excludes it, and
    require a property that has a default. `named`: the keys of `node` are names of the API, not JSON Schema keywords.
    """
    if isinstance(node, list):
        return [simplify_schema(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    if not named and "in" in node and "schema" in node:
        node = _simplify_parameter(node)
    if "patternProperties" in node:  # generators of clients do not know them, and they do not exclude other names
        node = dict(node)
        [(pattern, values)] = node.pop("patternProperties").items()
        node |= {"additionalProperties": values, "propertyNames": {"pattern": pattern}}
    kept = {name: value for name, value in node.items() if named or name != "title" or "version" in node}
    return {name: _simplify_value(name, value, named=named) for name, value in kept.items()}


def _simplify_value(name: str, value: Any, *, named: bool) -> Any:
    """Simplify one value of a schema. Examples are values, not schemas, and remain as they are."""
    if not named and name in {"example", "examples", "value", "enum"}:
        return value
    if isinstance(value, float) and value.is_integer():  # the framework makes a float of a bound, 2^63 of 2^63 - 1
        return min(int(value), 2**63 - 1)
    if not named and name == "properties":
        value = {key: _describe_default(schema, schema) for key, schema in value.items()}
    return simplify_schema(value, named=not named and name in _NAME_MAPS)


def _simplify_parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter whose schema has no null, and whose description is outside of the schema."""
    schema = dict(parameter["schema"])
    described = _describe_default(parameter, schema)
    given = [choice for choice in schema.pop("anyOf", ()) if choice != {"type": "null"}]
    if len(given) == 1:
        schema |= given[0]
    elif given:
        schema["anyOf"] = given
    return described | {
        "schema": {name: value for name, value in schema.items() if name not in _OUTSIDE_PARAMETER_SCHEMAS}
    }


def _describe_default(described: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Move the default of a schema to the end of the description; drop a default of null."""
    if "default" not in schema:
        return described
    kept = {name: value for name, value in described.items() if name != "default"}
    if schema["default"] is None:
        return kept
    text = f"{kept.get('description', '')} Default: `{json.dumps(schema['default'])}`."
    return kept | {"description": text.strip()}


TITLE: Final = "Mirrorgate"
VERSION: Final = "1.0.0"
_ANSWERED_OPTIONS: Final = "TableOptionsModel"


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route for these statuses, each with problem details."""
    return {status: {"description": _CONTRACT["answers"][status], "model": ProblemModel} for status in statuses}


ROUTE_SETTINGS: Final[dict[str, Any]] = {
    "generate_unique_id_function": lambda route: route.name,  # the name of the route's function
    "strict_content_type": False,  # a body without a content type counts as JSON, as at the change endpoints
}


class GatewayApp(FastAPI):
    """FastAPI with a contract that describes every answer as it is sent, for people and for client generators.

    A path with a trailing slash is unknown and never redirected: a client would send its key to the redirect's target.
    """

    entry: ASGIApp
    """The application in front of the framework; `create_app` sets it."""
    gateway: Gateway
    """The parts of the process while it runs."""
    _contract: ClassVar[dict[str, Any] | None] = None

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            title=TITLE,
            version=VERSION,
            description=_CONTRACT["description"],
            license_info=_CONTRACT["license"],
            servers=_CONTRACT["servers"],
            openapi_tags=_CONTRACT["tags"],
            redirect_slashes=False,
            separate_input_output_schemas=False,
            openapi_url=None,
            docs_url=None,  # FastAPI's pages load scripts from other servers
            redoc_url=None,
            # FastAPI's telemetry looks for a collector at every request: 13 % of a small request.
            telemetry={"tracing": False, "metrics": False, "logs": False},
            **ROUTE_SETTINGS,
            **settings,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the entry, which passes most requests on to Starlette.

        FastAPI's own method is not called: its telemetry costs time at every request even if it is off.
        """
        await self.entry(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """Return the framework's own layers but the one that answers crashes in plain text: the entry answers them."""
        outermost = super().build_middleware_stack()
        assert isinstance(outermost, ServerErrorMiddleware)
        return outermost.app

    def openapi(self) -> dict[str, Any]:
        """Return the completed contract, the same of each application. The first call builds it."""
        if GatewayApp._contract is None:
            GatewayApp._contract = _complete(super().openapi())
        return GatewayApp._contract


def _complete(contract: dict[str, Any]) -> dict[str, Any]:
    """Add to FastAPI's contract what it cannot derive, and remove what disturbs client generators."""
    for operation in _operations(contract):
        drop_framework_errors(operation)
        if "security" in operation:
            operation["security"] = [*operation["security"], {"basic": []}]
        for status in _common_statuses(operation):
            operation["responses"].setdefault(str(status), error_response(_CONTRACT["answers"][status]))
        operation["responses"] = dict(sorted(operation["responses"].items()))
        describe_successes(operation, contract["components"]["schemas"])
        show_answers(operation)
        for status, response in operation["responses"].items():
            add_response_headers(int(status), response)
    components = contract["components"]
    for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own models
        components["schemas"].pop(name, None)
    _describe_options(components["schemas"])
    components["schemas"] = dict(sorted((components["schemas"] | message_schemas()).items()))
    components["headers"] = HEADERS
    components["securitySchemes"] |= _CONTRACT["security_schemes"]
    completed: dict[str, Any] = simplify_schema(contract)
    return completed


def _describe_options(schemas: dict[str, Any]) -> None:
    """Describe the options in an answer, which has all of them. Drop defaults that are those of stored tables only."""
    options = schemas[TableOptions.__name__]
    for name in CHOSEN_AT_CREATION:
        del options["properties"][name]["default"]
    schemas[_ANSWERED_OPTIONS] = options | {
        "description": "All options of a table with their current values.",
        "required": list(options["properties"]),
    }
    for answer in (TableModel, RegisteredTableModel):
        schemas[answer.__name__]["properties"]["options"]["$ref"] = COMPONENTS + _ANSWERED_OPTIONS


def _operations(contract: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in contract["paths"].values():
        yield from path.values()


def _common_statuses(operation: dict[str, Any]) -> Iterator[int]:
    """Yield the statuses that FastAPI and the middleware can answer for any route of this kind."""
    yield from (400, 500)  # any path or query can be invalid UTF-8
    if "security" in operation:
        yield 429
    if "requestBody" in operation:
        yield from (408, 413, 415)


router = APIRouter(include_in_schema=False)

STATIC: Final = Path(__file__).parent / "static"
MEDIA_TYPES: Final[Mapping[str, str]] = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "swagger-start.js": "text/javascript",
    "redoc.standalone.js": "text/javascript",
    "redoc-start.js": "text/javascript",
    "docs.css": "text/css",
    "favicon.svg": "image/svg+xml",
}
"""The media types of the files that are served, by file name."""

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # both pages set inline styles
        "img-src 'self' data:",
        "connect-src 'self'",
        "worker-src blob:",  # Redoc's search
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_REDOC_LOGO: Final = b"https://cdn.redoc.ly/redoc/logo-mini.svg"
"""A picture that Redoc would load from another server, which the policy forbids; the page shows our icon there."""

_PAGE_HEADERS: Final = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
_METHODS: Final = ["GET", "HEAD"]


@router.api_route("/", methods=_METHODS)
async def root(request: Request) -> Response:
    """Redirect to the console, or to Swagger UI if it is off."""
    return RedirectResponse("console" if request.app.gateway.settings.console else "docs", 307)


@router.api_route("/docs", methods=_METHODS)
async def swagger() -> Response:
    """Return the page of Swagger UI."""
    return _page("Swagger UI", ["swagger-ui.css"], ["swagger-ui-bundle.js", "swagger-start.js"])


@router.api_route("/redoc", methods=_METHODS)
async def redoc() -> Response:
    """Return the page of Redoc."""
    return _page("Redoc", [], ["redoc.standalone.js", "redoc-start.js"])


@router.api_route("/openapi.json", methods=_METHODS)
async def contract(request: Request) -> Response:
    """Return the contract as JSON."""
    return Response(encoded_contract(request.app), media_type="application/json")


@router.api_route("/docs/assets/{name}", methods=_METHODS)
async def asset(name: str) -> Response:
    """Return a script, style sheet or icon of the pages."""
    if name not in MEDIA_TYPES:
        raise HTTPException(404)
    content = await asyncio.to_thread(_content, name)
    return Response(content, headers={"Cache-Control": "max-age=3600"}, media_type=MEDIA_TYPES[name])


@router.api_route("/favicon.ico", methods=_METHODS)
async def favicon() -> Response:
    """Return the icon, for browsers that ask for it at the root."""
    return await asset("favicon.svg")


@lru_cache(1)
def encoded_contract(app: FastAPI) -> bytes:
    """Return the contract as JSON, the same object each time: callers without a key may read it slowly."""
    return msgspec.json.encode(app.openapi())


@cache
def _content(name: str) -> bytes:
    return (STATIC / name).read_bytes().replace(_REDOC_LOGO, b"docs/assets/favicon.svg")


def _page(title: str, styles: list[str], scripts: list[str]) -> HTMLResponse:
    links = "".join(f'<link rel="stylesheet" href="docs/assets/{name}">' for name in ["docs.css", *styles])
    loaded = "".join(f'<script src="docs/assets/{name}"></script>' for name in scripts)
    content = (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Mirrorgate - {title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="docs/assets/favicon.svg">{links}</head>'
        f'<body><div id="docs"></div>{loaded}</body></html>'
    )
    return HTMLResponse(content, headers=_PAGE_HEADERS)
