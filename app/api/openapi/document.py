"""What the OpenAPI contract says beyond the routes' own types: who serves it, its tags, problems and headers."""

from collections.abc import Iterator
from typing import Any, Final

from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from app.api.middleware.body_limit import require_json_body
from app.api.openapi.contract_parts import HEADERS, answer_headers, plain, problem_of, without_framework_rejections
from app.api.openapi.message_bodies import message_schemas
from app.api.schemas.common import ProblemModel

TITLE: Final = "Mirrorgate"
VERSION: Final = "1.0.0"
DESCRIPTION: Final = (
    "Ingestion gateway for Microsoft Fabric open mirroring. Post change batches in Arcion or Qlik Replicate format; "
    "an answer 202 means the changes are durable and will land exactly once, in order."
)
LICENSE: Final[dict[str, Any]] = {"name": "Apache License 2.0", "identifier": "Apache-2.0"}
SERVERS: Final[list[dict[str, Any]]] = [
    {"url": "/", "description": "The gateway that serves this contract."},
    {"url": "http://127.0.0.1:8480", "description": "`mirrorgate up` on this machine."},
]
TAGS: Final[list[dict[str, Any]]] = [
    {"name": "changes", "description": "Post changes, and find out how far a producer has come."},
    {"name": "tables", "description": "Register tables; their status, schema, landing files and batches."},
    {"name": "dead letters", "description": "Rejected messages that are kept: look at them, replay or discard them."},
    {"name": "operations", "description": "What operators ask of tables. Each act names the generation it means."},
    {"name": "keys", "description": "API keys: who may do what with which tables."},
    {"name": "audit", "description": "Who did what, and what was rejected."},
    {"name": "status", "description": "Health, readiness and metrics of the gateway."},
]

_TEXTS: Final = {
    400: "Malformed request",
    401: "No valid key or token",
    403: "The key lacks the right",
    404: "No such table, batch or key, or outside the key's tables",
    408: "The body came too slowly",
    409: "Conflict with the table's state or schema",
    413: "Body too large",
    415: "Unsupported content type or encoding",
    422: "A message or a member is not valid",
    429: "Too much is not published yet, or the rate limit of the key; see Retry-After",
    500: "A fault of the gateway; its log has the request id",
    503: "Temporarily unavailable; see Retry-After",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route for these statuses, each with problem details."""
    return {status: {"description": _TEXTS[status], "model": ProblemModel} for status in statuses}


class GatewayApp(FastAPI):
    """FastAPI whose contract tells every answer as it is sent, and that generators of clients can read.

    A path is what it says: one with a slash at its end is another one, never redirected, because a client would send
    its key to wherever the redirect leads.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            title=TITLE,
            version=VERSION,
            description=DESCRIPTION,
            license_info=LICENSE,
            servers=SERVERS,
            openapi_tags=TAGS,
            redirect_slashes=False,
            dependencies=[Depends(require_json_body)],
            strict_content_type=False,  # a body without a type is taken for JSON, as on the change routes
            openapi_url=None,
            docs_url=None,  # the framework's pages load scripts from elsewhere; see docs_pages
            redoc_url=None,
            # The framework's own telemetry looks for a collector at every request; ours is in RequestLog.
            telemetry={"tracing": False, "metrics": False, "logs": False},
            **settings,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Without the framework's telemetry, which looks at every request also where it is off."""
        await Starlette.__call__(self, scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = _completed(super().openapi())
        return self.openapi_schema


def _completed(contract: dict[str, Any]) -> dict[str, Any]:
    """The framework's contract with what it cannot know, and without what is only noise to a generator."""
    for operation in _operations(contract):
        without_framework_rejections(operation)
        for status in _rejections_of_any(operation):
            operation["responses"].setdefault(str(status), problem_of(_TEXTS[status]))
        operation["responses"] = dict(sorted(operation["responses"].items()))
        for status, response in operation["responses"].items():
            answer_headers(int(status), response)
    components = contract["components"]
    for of_the_framework in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(of_the_framework, None)
    components["schemas"] = dict(sorted((components["schemas"] | message_schemas()).items()))
    components["headers"] = HEADERS
    completed: dict[str, Any] = plain(contract)
    return completed


def _operations(contract: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in contract["paths"].values():
        yield from path.values()


def _rejections_of_any(operation: dict[str, Any]) -> Iterator[int]:
    """What the framework and the middleware answer whatever the route is."""
    yield 500
    if "security" in operation:
        yield 429
    if "requestBody" in operation:
        yield 413
        yield 415
    if "requestBody" in operation or operation.get("parameters"):  # a path or query may be no text
        yield 400
