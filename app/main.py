"""Composition root of the API: builds the parts, runs uvicorn."""

import argparse
import gc
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import Any, Final

import structlog
import uvicorn
from fastapi import FastAPI
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from app.api.auth.authenticator import AuthenticatedBodies, Authenticator
from app.api.auth.tokens import token_verifier
from app.api.cached_answer import CachedAnswer
from app.api.gateway import Gateway
from app.api.limits.body_semaphore import Turns
from app.api.limits.memory_budget import Allowance, MemoryBudget
from app.api.limits.rate_limits import RateLimiter
from app.api.middleware.admission import Admission
from app.api.middleware.body_limit import BodyLimit
from app.api.middleware.error_handlers import install_problem_handlers
from app.api.middleware.fast_dispatch import DirectRoutes
from app.api.middleware.request_log import RequestLog
from app.api.middleware.upload_timeout import Pace, SlowBodies
from app.api.middleware.well_formed_url import WellFormedUrl
from app.api.openapi import docs_pages
from app.api.openapi.document import GatewayApp
from app.api.routes import audit as audit_routes
from app.api.routes import changes as change_routes
from app.api.routes import dead_letters as dead_letter_routes
from app.api.routes import keys as key_routes
from app.api.routes import metrics as status_routes
from app.api.routes import probes as probe_routes
from app.api.routes import producers as producer_routes
from app.api.routes import releases as release_routes
from app.api.routes import schemas as schema_routes
from app.api.routes import table_operations as table_admin_routes
from app.api.routes import tables as table_routes
from app.api.schemas.probes import GatewayStatusModel
from app.api.server.http_protocol import BoundedHttpProtocol
from app.domain.access.rate_limit import RateLimits
from app.domain.preflight.finding import Outcome
from app.domain.publication.backlog import BacklogLimit
from app.errors import Code, Misconfigured
from app.ingest import BacklogWatch, Ingest
from app.local.child_process import exit_with_parent, run_process
from app.local.locked_tempdir import temporary_folder
from app.observability.resource_watch import ResourceWatch, memory_limit, raise_descriptor_limit
from app.observability.telemetry import configure_logging
from app.settings import LOOPBACK, Settings, renamed_variables, unknown_variables
from app.settings.start_checks import check_memory, check_serving, free_port
from app.staging.access.api_keys import count_valid_keys
from app.staging.access.audit_writer import AuditWriter
from app.staging.connection.database import driver_url, open_engine, pin_marker_position, translated_errors
from app.staging.connection.notifications import NotificationSender
from app.staging.connection.schema_revision import require_migrated
from app.staging.writer.gauges import export_writer_state
from app.staging.writer.group_commit import GroupCommit
from app.staging.writer.writer_probe import WriterProbe

log = structlog.get_logger()

_METRICS: Final = "PROMETHEUS_MULTIPROC_DIR"


def create_app(settings: Settings | None = None) -> FastAPI:
    """The API application; it opens the database when it starts and finishes what is in flight when it stops."""
    settings = settings or Settings.from_environment()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        configure_logging(settings)
        seconds = settings.database_seconds
        engine = open_engine(
            settings.require_database_url(),
            pool_size=10,
            application="mirrorgate api",
            silence_seconds=seconds,
            bound_statements=True,
        )
        staged = threading.Event()
        wake = NotificationSender(driver_url(engine), staged)
        watch = partial(export_writer_state, engine)
        group_commit = GroupCommit(engine, staged=staged, deadline_seconds=seconds / 2, watch=watch)
        audit_writer = AuditWriter(engine)
        admin_key = settings.admin_key.get_secret_value() if settings.admin_key else None
        tokens = token_verifier(settings)
        limits = RateLimits(settings.key_requests_per_second, settings.key_bytes_per_second)
        authenticator = Authenticator(engine, admin_key, audit_writer, tokens, RateLimiter(limits))
        # A connection of its own: it is to see the backlog also when requests have taken all the others.
        watching = open_engine(
            settings.require_database_url(), pool_size=1, application="mirrorgate backlog", silence_seconds=seconds
        )
        backlog = BacklogWatch(watching, *_backlog_limits(settings))
        ingest = Ingest(engine, group_commit, settings.marker_first, backlog)
        writer, statusz = WriterProbe(group_commit), CachedAnswer[GatewayStatusModel]()
        app.state.gateway = Gateway(settings, engine, authenticator, audit_writer, ingest, writer, statusz, staged)
        wake.start()
        group_commit.start()
        audit_writer.start()
        backlog.start()
        if tokens is not None:
            tokens.prepare()
        try:
            with ResourceWatch():
                yield
        finally:
            group_commit.close()
            wake.close()
            audit_writer.close()
            backlog.close()
            watching.dispose()
            engine.dispose()

    app = GatewayApp(lifespan=lifespan)
    for routes in (
        change_routes,
        producer_routes,
        table_routes,
        table_admin_routes,
        release_routes,
        dead_letter_routes,
        schema_routes,
        key_routes,
        audit_routes,
        probe_routes,
        status_routes,
        docs_pages,
    ):
        app.include_router(routes.router)
    install_problem_handlers(app)
    pace = Pace(settings.body_seconds, settings.body_grace_seconds, settings.min_body_rate)
    app.add_middleware(DirectRoutes, router=change_routes.router)
    app.add_middleware(AuthenticatedBodies)
    app.add_middleware(BodyLimit, most=settings.max_body_bytes)
    app.add_middleware(SlowBodies, pace=pace)
    budget = MemoryBudget(
        Allowance(settings.max_concurrent_requests, settings.bytes_in_memory),
        Allowance(settings.requests_of_one_key, settings.bytes_in_memory_of_one_key),
    )
    app.add_middleware(Admission, budget=budget, turns=Turns(settings.max_large_bodies_bytes))
    app.add_middleware(WellFormedUrl)
    app.add_middleware(RequestLog)
    return app


def served_app() -> FastAPI:
    """The application of a process that serves nothing else, as uvicorn makes it in each API process.

    All that is there when it starts stays, and is nothing to look for garbage in: a look at it takes a tenth of a
    second, and many small requests make one necessary each second.
    """
    settings = Settings.from_environment()
    if settings.api_processes > 1 and (parent := multiprocessing.parent_process()):
        exit_with_parent(parent.pid)  # an orphan would keep the port
    app = create_app(settings)
    gc.collect()
    gc.freeze()
    return app


def _backlog_limits(settings: Settings) -> tuple[BacklogLimit, BacklogLimit]:
    """Of one table, and of all together."""
    one = BacklogLimit(settings.max_backlog_bytes, settings.max_backlog_rows, settings.max_backlog_seconds)
    return one, BacklogLimit(settings.max_total_backlog_bytes, settings.max_total_backlog_rows)


def serve(settings: Settings, *, parent_pid: int | None = None) -> None:
    """Run the API until SIGTERM or SIGINT, which let it finish what is in flight: the process ends with 0 then.

    Raises Misconfigured for a database or binding that is not safe.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises the signal again when it has stopped
    check_start(settings)
    if parent_pid is None:
        free_port(settings.host, settings.port)  # uvicorn's own message is a log line without a remedy
    else:
        exit_with_parent(parent_pid)
    config = uvicorn.Config(
        "app.main:served_app",
        **listening(settings),
        factory=True,
        workers=settings.api_processes,
        loop="uvloop",
        http=BoundedHttpProtocol,
        ws="none",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=settings.shutdown_seconds,
        timeout_worker_healthcheck=30,
    )
    facts = _facts(settings)
    try:
        if settings.api_processes > 1:
            with _shared_metrics():
                listener = config.bind_socket()
                log.info("api_started", **facts)
                _ApiProcesses(config, [listener]).run()
            return
        server = _Server(config, facts)
        with suppress(KeyboardInterrupt):
            server.run()
        if not server.started:
            sys.exit(STARTUP_FAILURE)
    finally:
        log.info("api_stopped", **facts)


def _facts(settings: Settings) -> dict[str, Any]:
    """What an operator asks first about an API that runs."""
    scheme = "http" if settings.tls_certificate_file is None else "https"
    address = f"{scheme}://{settings.host}:{settings.port}"
    return {"version": version("mirrorgate"), "address": address, "processes": settings.api_processes}


class _Server(uvicorn.Server):
    """Logs that it listens."""

    def __init__(self, config: uvicorn.Config, facts: dict[str, Any]) -> None:
        super().__init__(config)
        self._facts = facts

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            log.info("api_started", **self._facts)


@contextmanager
def _shared_metrics() -> Iterator[None]:
    """Within the block API processes that are started count together, in the folder that is set or one of their own."""
    if _METRICS in os.environ:
        yield
        return
    with temporary_folder("metrics") as folder:
        os.environ[_METRICS] = str(folder)
        try:
            yield
        finally:
            del os.environ[_METRICS]


class _ApiProcesses(Multiprocess):
    """API processes that share a port, which none listens on any more once they are told to stop."""

    def keep_subprocess_alive(self) -> None:
        """Replace processes that died; what their gauges last said no longer counts."""
        before = {process.pid for process in self.processes}
        super().keep_subprocess_alive()
        for pid in before - {process.pid for process in self.processes}:
            mark_process_dead(pid)  # type: ignore[no-untyped-call]  # the package has no types for it

    def terminate_all(self) -> None:
        for listener in self.sockets:
            listener.close()
        super().terminate_all()


def listening(settings: Settings) -> dict[str, Any]:
    """Where and how uvicorn listens. Headers of a proxy are believed only where there is one."""
    return {
        "host": settings.host,
        "port": settings.port,
        "ssl_certfile": settings.tls_certificate_file,
        "ssl_keyfile": settings.tls_key_file,
        "proxy_headers": settings.behind_tls_proxy,
        "forwarded_allow_ips": settings.forwarded_allow_ips,
    }


def check_start(settings: Settings) -> None:
    """Reject to start on a database of another revision, or in public without TLS or any key."""
    configure_logging(settings)
    raise_descriptor_limit()
    memory = check_memory(settings, memory_limit())
    if memory.outcome is not Outcome.OK:
        log.warning("start_check", check=memory.check, detail=memory.detail, remedy=memory.remedy)
    check_serving(settings)
    for sentence in unknown_variables(os.environ):
        log.warning("unknown_variable", detail=sentence)
    for sentence in renamed_variables(os.environ):
        log.warning("renamed_variable", detail=sentence)
    engine = open_engine(settings.require_database_url())
    try:
        require_migrated(engine)
        pin_marker_position(engine, marker_first=settings.marker_first)
        with translated_errors(), engine.begin() as connection:
            has_key = settings.admin_key is not None or count_valid_keys(connection) > 0
        if not has_key:
            log.warning(
                "no_key_exists",
                detail="no request can be authenticated: MIRRORGATE_ADMIN_KEY is not set, and no key is stored",
                remedy="Set MIRRORGATE_ADMIN_KEY; `mirrorgate keys generate` prints one.",
            )
        if settings.host not in LOOPBACK and not has_key:
            raise Misconfigured(
                Code.PUBLIC_WITHOUT_KEY, f"the API would listen on {settings.host} with no API key at all"
            )
    finally:
        engine.dispose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m app.main", description="Run the API.")
    parser.add_argument("--parent-pid", type=int, help="stop when this process is gone")
    parent = parser.parse_args().parent_pid
    run_process(lambda: serve(Settings.from_environment(), parent_pid=parent), is_child=parent is not None)
