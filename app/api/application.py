"""Puts the FastAPI application together: routes, error handlers and middleware in their order."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from app.api.lifespan import running_gateway
from app.api.limits.body_semaphore import BodySemaphore
from app.api.limits.memory_budget import Allowance, MemoryBudget
from app.api.middleware.admission import Admission
from app.api.middleware.body_authentication import BodyAuthentication
from app.api.middleware.body_limit import BodyLimit
from app.api.middleware.error_handlers import install_error_handlers
from app.api.middleware.fast_dispatch import FastDispatch
from app.api.middleware.request_log import RequestLog
from app.api.middleware.upload_timeout import UploadDeadline, UploadTimeout
from app.api.middleware.well_formed_url import WellFormedUrl
from app.api.openapi import docs_pages
from app.api.openapi.document import GatewayApp
from app.api.routes import (
    audit,
    changes,
    dead_letters,
    keys,
    metrics,
    probes,
    producers,
    releases,
    schemas,
    table_operations,
    tables,
)
from app.observability.telemetry import configure_logging
from app.settings import Settings

_ROUTES = (
    changes,
    producers,
    tables,
    table_operations,
    releases,
    dead_letters,
    schemas,
    keys,
    audit,
    probes,
    metrics,
    docs_pages,
)
"""Modules with a router each, in the order of the contract."""


def create_app(settings: Settings | None = None) -> FastAPI:
    """Return the API application. It opens the database when it starts and completes open requests when it stops."""
    settings = settings or Settings.from_environment()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        configure_logging(settings)
        with running_gateway(settings) as gateway:
            app.state.gateway = gateway
            yield

    app = GatewayApp(lifespan=lifespan)
    for module in _ROUTES:
        app.include_router(module.router)
    install_error_handlers(app)
    _add_middleware(app, settings)
    return app


def _add_middleware(app: FastAPI, settings: Settings) -> None:
    """Add the middleware from the inside to the outside: the last one sees a request first."""
    app.add_middleware(FastDispatch, router=changes.router)
    app.add_middleware(BodyAuthentication)
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    deadline = UploadDeadline(settings.body_seconds, settings.body_grace_seconds, settings.min_body_rate)
    app.add_middleware(UploadTimeout, deadline=deadline)
    budget = MemoryBudget(
        Allowance(settings.max_concurrent_requests, settings.bytes_in_memory),
        Allowance(settings.requests_of_one_key, settings.bytes_in_memory_of_one_key),
    )
    app.add_middleware(Admission, budget=budget, semaphore=BodySemaphore(settings.max_large_bodies_bytes))
    app.add_middleware(WellFormedUrl)
    app.add_middleware(RequestLog)
