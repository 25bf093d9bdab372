"""Put the application together: routes, error handlers, and the entry in front of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from fastapi import APIRouter, Depends, FastAPI
from starlette.applications import Starlette

from app.api.changes.endpoints import ENDPOINTS
from app.api.console import CONSOLE
from app.api.console.answers import SignInRequired, answer_sign_in
from app.api.exchange import BodyBounds
from app.api.lifespan import running_gateway
from app.api.limits import Allowance, BodySemaphore, MemoryBudget, TransferDeadline
from app.api.middleware.error_handlers import install_error_handlers
from app.api.middleware.request_entry import RequestEntry
from app.api.openapi import document
from app.api.openapi.document import ROUTE_SETTINGS, GatewayApp
from app.api.routes import changes, dead_letters, keys, layouts, loads, probes, table_operations, tables
from app.api.server.request_parameters import require_declared_type, require_known_query
from app.observability.telemetry import configure_logging
from app.settings import Settings

_CHECKED: Final = [Depends(require_declared_type), Depends(require_known_query)]
_API: Final = APIRouter(**ROUTE_SETTINGS)
"""The routes in the order of the contract. Applications share them, because FastAPI takes 0.1 s to prepare them."""
_API.include_router(changes.router)
for _router in (
    changes.producers_router,
    tables.router,
    tables.mirror_router,
    table_operations.router,
    loads.router,
    loads.checks_router,
    dead_letters.router,
    layouts.router,
    keys.router,
    keys.audit_router,
):
    _API.include_router(_router, dependencies=_CHECKED)
for _router in (probes.router, document.router):  # a probe, a scraper or a browser may add parameters
    _API.include_router(_router)


def create_app(settings: Settings | None = None, *, in_front: bool = True) -> GatewayApp:
    """Return the API application. It opens the database when it starts and completes open requests when it stops.

    The change endpoints are answered in front of the framework, or else by its routes, with the same answers.
    """
    settings = settings or Settings.from_environment()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        configure_logging(settings)
        with running_gateway(settings) as gateway:
            app.gateway = gateway
            yield

    app = GatewayApp(lifespan=lifespan, routes=_API.routes + (CONSOLE.routes if settings.console else []))
    app.add_exception_handler(SignInRequired, answer_sign_in)
    install_error_handlers(app)
    endpoints = ENDPOINTS if in_front else None
    framework = partial(Starlette.__call__, app)
    app.entry = RequestEntry(framework, app, _body_bounds(settings), endpoints, has_console=settings.console)
    return app


def _body_bounds(settings: Settings) -> BodyBounds:
    budget = MemoryBudget(
        Allowance(settings.max_concurrent_requests, settings.bytes_in_memory),
        settings.max_key_share,
        2 * settings.max_body_bytes,  # a compressed body and its decompressed form
    )
    deadline = TransferDeadline(settings.body_seconds, settings.body_grace_seconds, settings.min_body_rate)
    semaphore = BodySemaphore(settings.max_large_bodies_bytes)
    return BodyBounds(settings.max_body_bytes, deadline, deadline.of_unverified, budget, semaphore)
