"""Routes that bypass the framework answer exactly as the framework would."""

import asyncio
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import Message, Scope

from app.api.middleware.error_handlers import install_error_handlers
from app.api.middleware.fast_dispatch import FastDispatch
from app.api.routes import changes as change_routes
from app.errors import Code, MirrorgateError, Problem, RejectedInput, TemporarilyUnavailable

ISSUE = {"type": "bool_parsing", "loc": ("query", "dry_run"), "msg": "not a boolean", "input": "x"}

OUTCOMES: dict[str, Exception | Response] = {
    "an answer": Response(b"{}", 202, {"X-Own": "1"}, "application/json"),
    "a rejection": RejectedInput.of((Problem(Code.BAD_VALUE, "wrong", 3, "/after/a", "a"),)),
    "a state": TemporarilyUnavailable(Code.TABLE_BUSY, "busy", retry_after=7),
    "a fault": MirrorgateError(Code.INTERNAL, "a fault"),
    "a parameter": RequestValidationError([ISSUE]),
    "a large body": HTTPException(413),
    "a slow body": HTTPException(408, headers={"Connection": "close"}),
    "no room": HTTPException(503, headers={"Retry-After": "1"}),
}


def sent(app: Any, method: str, path: str) -> list[Message]:
    """Return what the app sends."""
    messages: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        messages.append(message)

    scope: Scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(b"host", b"here")],
    }
    asyncio.run(app(scope, receive, send))
    return messages


def app_with(outcome: Exception | Response, *, direct: bool) -> FastAPI:
    router = APIRouter(prefix="/v1")

    @router.post("/it", response_model=None)
    async def post_it(_: Request) -> Response:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    app = FastAPI(redirect_slashes=False)
    app.include_router(router)
    install_error_handlers(app)
    if direct:
        app.add_middleware(FastDispatch, router=router)
    return app


@pytest.mark.parametrize("what", OUTCOMES)
def test_what_a_route_gives_or_raises_is_answered_as_by_the_framework(what: str) -> None:
    direct, framework = (sent(app_with(OUTCOMES[what], direct=way), "POST", "/v1/it") for way in (True, False))
    assert direct == framework


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/it"), ("POST", "/v1/it/"), ("POST", "/v1/other")])
def test_every_other_method_and_path_is_left_to_the_framework(method: str, path: str) -> None:
    direct, framework = (sent(app_with(OUTCOMES["an answer"], direct=way), method, path) for way in (True, False))
    assert direct == framework
    assert direct[0]["status"] in {404, 405}


def test_an_unexpected_error_is_passed_on_to_the_log() -> None:
    with pytest.raises(ZeroDivisionError):
        sent(app_with(ZeroDivisionError(), direct=True), "POST", "/v1/it")


def test_every_change_route_takes_the_request_alone() -> None:
    routes = [route for route in change_routes.router.routes if isinstance(route, APIRoute)]
    assert {route.path for route in routes} == {f"/v1/changes/{name}" for name in ("arcion", "replicate", "arrow")}
    for route in routes:
        assert route.methods == {"POST"}
        assert route.dependant.request_param_name == "request"
        assert not route.dependant.dependencies
        assert not route.dependant.query_params + route.dependant.header_params + route.dependant.body_params
