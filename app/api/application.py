"""Put the application together: routes, error handlers, and the entry in front of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import Depends, FastAPI
from starlette.applications import Starlette

from app.api.changes.endpoints import ENDPOINTS
from app.api.console import install_console
from app.api.exchange import BodyBounds
from app.api.lifespan import running_gateway
from app.api.limits.body_semaphore import BodySemaphore, TransferDeadline
from app.api.limits.memory_budget import Allowance, MemoryBudget
from app.api.middleware.error_handlers import install_error_handlers
from app.api.middleware.request_entry import RequestEntry
from app.api.openapi import docs_pages
from app.api.openapi.document import GatewayApp
from app.api.routes import (
    audit,
    changes,
    dead_letters,
    keys,
    layouts,
    metrics,
    mirror,
    probes,
    producers,
    schemas,
    table_operations,
    tables,
)
from app.api.routes.recovery import loads, source_checks
from app.api.server.content_types import require_declared_type
from app.api.server.request_parameters import require_known_query
from app.observability.telemetry import configure_logging
from app.settings import Settings

_ROUTES = (
    producers,
    tables,
    mirror,
    table_operations,
    loads,
    source_checks,
    dead_letters,
    schemas,
    layouts,
    keys,
    audit,
    probes,
    metrics,
    docs_pages,
)
"""Modules with a router each, in the order of the contract, behind the change routes."""


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

    app = GatewayApp(lifespan=lifespan)
    app.include_router(changes.router)
    for module in _ROUTES:
        checks = [Depends(require_declared_type)]
        if module not in (probes, metrics, docs_pages):  # a probe, a scraper or a browser may add parameters
            checks.append(Depends(require_known_query))
        app.include_router(module.router, dependencies=checks)
    if settings.console:
        install_console(app)
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
