"""Composition root of the API: builds the parts, runs uvicorn."""

import argparse
import os
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
import uvicorn
from fastapi import FastAPI

from app.api import (
    change_routes,
    dead_letter_routes,
    key_routes,
    producer_routes,
    schema_routes,
    status_routes,
    table_admin_routes,
    table_routes,
)
from app.api.auth import Authenticator
from app.api.gateway import Gateway
from app.api.openapi import DESCRIPTION, TITLE, VERSION, GatewayApp
from app.api.problem_responses import install_problem_handlers
from app.api.request_body import BodyLimit
from app.api.request_log import RequestLog
from app.errors import Code, Misconfigured
from app.ingest import Ingest
from app.settings import Settings, unknown_variables
from app.staging.api_keys import count_valid_keys
from app.staging.database import driver_url, open_engine, pin_marker_position, translated_errors
from app.staging.group_commit import GroupCommit
from app.staging.schema_revision import require_migrated
from app.staging.wake import WakeSender
from app.supervisor import exit_with_parent
from app.telemetry import configure_logging

log = structlog.get_logger()

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def create_app(settings: Settings | None = None) -> FastAPI:
    """The API application; it opens the database when it starts and finishes what is in flight when it stops."""
    settings = settings or Settings.from_environment()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        configure_logging(settings)
        engine = open_engine(settings.require_database_url(), pool_size=10, application="mirrorgate api")
        staged = threading.Event()
        wake = WakeSender(driver_url(engine), staged)
        group_commit = GroupCommit(engine, staged=staged)
        admin_key = settings.admin_key.get_secret_value() if settings.admin_key else None
        ingest = Ingest(engine, group_commit, settings.marker_first)
        app.state.gateway = Gateway(settings, engine, Authenticator(engine, admin_key), ingest, staged)
        wake.start()
        group_commit.start()
        try:
            yield
        finally:
            group_commit.close()
            wake.close()
            engine.dispose()

    app = GatewayApp(title=TITLE, version=VERSION, description=DESCRIPTION, lifespan=lifespan)
    for routes in (
        change_routes,
        producer_routes,
        table_routes,
        table_admin_routes,
        dead_letter_routes,
        schema_routes,
        key_routes,
        status_routes,
    ):
        app.include_router(routes.router)
    install_problem_handlers(app)
    app.add_middleware(BodyLimit, most=settings.max_body_bytes)
    app.add_middleware(RequestLog)
    return app


def serve(settings: Settings, *, parent_pid: int | None = None) -> None:
    """Run the API until SIGTERM or SIGINT. Raises Misconfigured for a database or binding that is not safe."""
    check_start(settings)
    if settings.api_processes > 1:
        os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="mirrorgate-metrics-"))
    if parent_pid is not None:
        exit_with_parent(parent_pid)
    uvicorn.run(
        "app.main:create_app",
        factory=True,
        host=settings.host,
        port=settings.port,
        workers=settings.api_processes,
        loop="uvloop",
        http="httptools",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=10,
    )


def check_start(settings: Settings) -> None:
    """Refuse to start on a database of another revision, or in public without any key."""
    configure_logging(settings)
    for sentence in unknown_variables(os.environ):
        log.warning("unknown_variable", detail=sentence)
    engine = open_engine(settings.require_database_url())
    try:
        require_migrated(engine)
        pin_marker_position(engine, marker_first=settings.marker_first)
        with translated_errors(), engine.begin() as connection:
            has_key = settings.admin_key is not None or count_valid_keys(connection) > 0
        if settings.host not in _LOOPBACK and not has_key:
            raise Misconfigured(
                Code.PUBLIC_WITHOUT_KEY, f"the API would listen on {settings.host} with no API key at all"
            )
    finally:
        engine.dispose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m app.main", description="Run the API.")
    parser.add_argument("--parent-pid", type=int, help="stop when this process is gone")
    serve(Settings.from_environment(), parent_pid=parser.parse_args().parent_pid)
