"""The FastAPI application class whose contract is complete: servers, tags, problems and headers of every answer."""

from collections.abc import Iterator
from typing import Any, Final

from fastapi import FastAPI
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.gateway import Gateway
from app.api.openapi.contract_parts import (
    HEADERS,
    SECURITY_SCHEMES,
    add_response_headers,
    describe_successes,
    drop_framework_errors,
    error_response,
    simplify_schema,
)
from app.api.openapi.message_bodies import message_schemas
from app.api.schemas.common import ProblemModel

TITLE: Final = "Mirrorgate"
VERSION: Final = "1.0.0"
DESCRIPTION: Final = (
    "Ingestion gateway for Microsoft Fabric open mirroring. Post change batches in Arcion, Qlik Replicate or Debezium "
    "format, or plain rows; the answer 202 means that the changes are durable and will land exactly once, in order.\n\n"
    "The version above is that of this contract: 1.x never loses a key or changes its meaning. The version of the "
    "program is in the metric `mirrorgate_build_info`, and `mirrorgate --version` prints it."
)
LICENSE: Final[dict[str, Any]] = {"name": "Apache License 2.0", "identifier": "Apache-2.0"}
SERVERS: Final[list[dict[str, Any]]] = [
    {"url": "/", "description": "The gateway that serves this contract."},
    {"url": "http://127.0.0.1:8480", "description": "`mirrorgate up` on this machine."},
]
TAGS: Final[list[dict[str, Any]]] = [
    {"name": "changes", "description": "Post changes, and read the progress of a producer."},
    {"name": "tables", "description": "Register tables; read their status, schema, landing files and batches."},
    {"name": "mirror", "description": "Read how far the Delta mirror is, and rows of a mirrored table."},
    {"name": "dead letters", "description": "Read, replay or discard rejected messages that were kept."},
    {
        "name": "operations",
        "description": "Pause, drop, recreate, repair and release tables. Each operation names a generation.",
    },
    {"name": "loads", "description": "Load a table again beside its stream of changes."},
    {"name": "recovery", "description": "Compare a table with its source."},
    {"name": "layouts", "description": "Say where Replicate messages of a custom format have their parts."},
    {"name": "keys", "description": "Manage API keys: their rights, tables and rate limits."},
    {"name": "audit", "description": "Read who did what, and which calls were rejected."},
    {"name": "status", "description": "Read health, readiness and metrics of the gateway."},
]

_DESCRIPTIONS: Final = {
    400: "Malformed request",
    401: "No valid key or token",
    403: "The key lacks the right",
    404: "No such table, batch or key, or a table outside the key's patterns",
    408: "The body arrived too slowly",
    409: "Conflict with the table's state or schema",
    413: "Body too large",
    415: "Unsupported content type or encoding",
    422: "A message or a field is not valid",
    429: "The backlog or the rate limit of the key is exceeded; see Retry-After",
    500: "An error of the gateway; search its log for the request id",
    503: "Temporarily unavailable; see Retry-After",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route for these statuses, each with problem details."""
    return {status: {"description": _DESCRIPTIONS[status], "model": ProblemModel} for status in statuses}


class GatewayApp(FastAPI):
    """FastAPI with a contract that describes every answer as it is sent, for people and for client generators.

    A path with a trailing slash is unknown and never redirected: a client would send its key to the redirect's target.
    """

    entry: ASGIApp
    """The application in front of the framework; `create_app` sets it."""
    gateway: Gateway
    """The parts of the process while it runs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            title=TITLE,
            version=VERSION,
            description=DESCRIPTION,
            license_info=LICENSE,
            servers=SERVERS,
            openapi_tags=TAGS,
            redirect_slashes=False,
            strict_content_type=False,  # a body without a content type counts as JSON, as at the change endpoints
            openapi_url=None,
            docs_url=None,  # FastAPI's pages load scripts from other servers; see docs_pages
            redoc_url=None,
            # FastAPI's telemetry looks for a collector at every request: 13 % of a small request.
            telemetry={"tracing": False, "metrics": False, "logs": False},
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
        """Return the completed contract, built at the first call."""
        if self.openapi_schema is None:
            self.openapi_schema = _complete(super().openapi())
        return self.openapi_schema


def _complete(contract: dict[str, Any]) -> dict[str, Any]:
    """Add to FastAPI's contract what it cannot derive, and remove what disturbs client generators."""
    for operation in _operations(contract):
        drop_framework_errors(operation)
        if "security" in operation:
            operation["security"] = [*operation["security"], {"basic": []}]
        for status in _common_statuses(operation):
            operation["responses"].setdefault(str(status), error_response(_DESCRIPTIONS[status]))
        operation["responses"] = dict(sorted(operation["responses"].items()))
        describe_successes(operation, contract["components"]["schemas"])
        for status, response in operation["responses"].items():
            add_response_headers(int(status), response)
    components = contract["components"]
    for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own models
        components["schemas"].pop(name, None)
    components["schemas"] = dict(sorted((components["schemas"] | message_schemas()).items()))
    components["headers"] = HEADERS
    components["securitySchemes"] |= SECURITY_SCHEMES
    completed: dict[str, Any] = simplify_schema(contract)
    return completed


def _operations(contract: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in contract["paths"].values():
        yield from path.values()


def _common_statuses(operation: dict[str, Any]) -> Iterator[int]:
    """Yield the statuses that FastAPI and the middleware can answer for any route of this kind."""
    yield 500
    if "security" in operation:
        yield 429
    if "requestBody" in operation:
        yield 413
        yield 415
    if "requestBody" in operation or operation.get("parameters"):  # a path or query can be invalid UTF-8
        yield 400
