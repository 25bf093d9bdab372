"""Routes that are called without the framework, which takes longer to find and call one than a small request takes.

They are still the framework's routes: it describes them in the contract, and answers for every other method.
"""

from collections.abc import Mapping

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.middleware.error_handlers import answer_deliberate, answer_framework, answer_validation
from app.errors import MirrorgateError


class DirectRoutes:
    """Calls the POST endpoints of a router, which read all they need from the request and give a response."""

    def __init__(self, app: ASGIApp, router: APIRouter) -> None:
        self._app = app
        self._routes: Mapping[str, APIRoute] = {
            route.path: route
            for route in router.routes
            if isinstance(route, APIRoute) and "POST" in (route.methods or ())
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = route
        request = Request(scope, receive, send)
        try:
            response = await route.endpoint(request)
        except MirrorgateError as error:
            response = answer_deliberate(request, error)
        except RequestValidationError as error:
            response = answer_validation(request, error)
        except HTTPException as error:
            response = answer_framework(request, error)
        await response(scope, receive, send)
