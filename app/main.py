"""Start the API: check the machine and the database, then run uvicorn with one or several processes.

`mirrorgate api` and `python -m app.main` call `serve`; uvicorn calls `served_app` in each process.
"""

import argparse
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import Any, Final

import structlog
import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE

from app.api.application import create_app
from app.api.server.http_protocol import BoundedHttpProtocol
from app.api.server.uvicorn_server import MAX_START_SECONDS, ApiProcesses, ApiServer
from app.domain.access.mask_secret import MaskSecret
from app.domain.preflight import Outcome
from app.extras import require_extras
from app.local.child_process import exit_with_parent, run_process
from app.local.locked_tempdir import locked_tempdir
from app.observability.resource_watch import memory_limit, raise_descriptor_limit
from app.observability.telemetry import configure_logging
from app.settings import LOOPBACK, Settings, unknown_variables
from app.settings.start_checks import check_memory, check_serving, free_port
from app.staging.access.api_keys import count_valid_keys
from app.staging.access.mask_secrets import hashed_tables
from app.staging.connection.database import Engine, disposed, open_engine, pin_marker_position, translated_errors
from app.staging.connection.schema_revision import require_migrated
from mirrorgate.errors import Code, Misconfigured
from mirrorgate.process_memory import collect_seldom, keep_freed_memory

log = structlog.get_logger()

_METRICS_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"

SERVER_OPTIONS: Final[Mapping[str, Any]] = {
    "factory": True,
    "loop": "uvloop",
    "http": BoundedHttpProtocol,
    "ws": "none",
    "log_config": None,
    "log_level": "error",
    "access_log": False,
    "server_header": False,
    "timeout_keep_alive": 75,  # load balancers reuse a connection for up to 60 s; one that closes first answers 502
}
"""Options of uvicorn that depend on no setting."""


def served_app() -> FastAPI:
    """Return the application of a process that serves nothing else; uvicorn calls this in each API process.

    Small requests would cause a full garbage collection every two seconds (performance notebook).
    """
    settings = Settings.from_environment()
    if settings.api_processes > 1 and (parent := multiprocessing.parent_process()):
        exit_with_parent(parent.pid)  # an orphan would keep the port
    keep_freed_memory()
    app = create_app(settings)
    collect_seldom()
    return app


def serve(settings: Settings, *, parent_pid: int | None = None) -> None:
    """Run the API until SIGTERM or SIGINT. It then completes open requests, and the process exits with 0.

    Raises Misconfigured for a database or an address that is not safe to serve.
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
        **SERVER_OPTIONS,
        workers=settings.api_processes,
        timeout_graceful_shutdown=settings.shutdown_seconds,
        timeout_worker_healthcheck=int(MAX_START_SECONDS),
    )
    facts = _start_facts(settings)
    try:
        if settings.api_processes > 1:
            with _shared_metrics():
                processes = ApiProcesses(config, [config.bind_socket()], facts)
                processes.run()
            if processes.cannot_start:
                sys.exit(STARTUP_FAILURE)
            return
        server = ApiServer(config, facts)
        with suppress(KeyboardInterrupt):
            server.run()
        if not server.started:
            sys.exit(STARTUP_FAILURE)
    finally:
        log.info("api_stopped", **facts)


def listening(settings: Settings) -> dict[str, Any]:
    """Return the options of uvicorn for its address. Headers of a proxy are trusted only if one is declared."""
    return {
        "host": settings.host,
        "port": settings.port,
        "ssl_certfile": settings.tls_certificate_file,
        "ssl_keyfile": settings.tls_key_file,
        "proxy_headers": settings.behind_tls_proxy,
        "forwarded_allow_ips": settings.forwarded_allow_ips,
    }


def check_start(settings: Settings) -> None:
    """Check that the API can serve safely, and log warnings.

    Raises Misconfigured for a database of another revision, or for a public address without TLS or without any key.
    """
    configure_logging(settings)
    if settings.mirror_target is not None:
        try:
            require_extras("api", "rows")
        except Misconfigured as error:
            log.warning("start_check", check="mirror_rows", detail=error.detail, remedy=error.remedy)
    raise_descriptor_limit()
    memory = check_memory(settings, memory_limit())
    if memory.outcome is not Outcome.OK:
        log.warning("start_check", check=memory.check, detail=memory.detail, remedy=memory.remedy)
    check_serving(settings)
    for sentence in unknown_variables(os.environ):
        log.warning("unknown_variable", detail=sentence)
    with disposed(open_engine(settings.require_database_url())) as engine:
        require_migrated(engine)
        pin_marker_position(engine, marker_first=settings.marker_first)
        with translated_errors(), engine.begin() as connection:
            has_key = settings.admin_key is not None or count_valid_keys(connection) > 0
        _check_mask_secret(engine, MaskSecret.given(settings.mask_secret_bytes))
    _check_keys(settings, has_key=has_key)


def _check_mask_secret(engine: Engine, secret: MaskSecret | None) -> None:
    """Log a warning if this process cannot serve tables with hashed columns. It serves the others nonetheless."""
    with translated_errors(), engine.begin() as connection:
        trouble = hashed_tables(connection).trouble(secret)
    if trouble is not None:
        code = Code.MASK_SECRET_MISSING if secret is None else Code.MASK_SECRET_DIFFERS
        log.warning("start_check", check="mask_secret", detail=trouble, remedy=code.remedy)


def _check_keys(settings: Settings, *, has_key: bool) -> None:
    """Log a warning if no key exists. Raises Misconfigured if the API would then listen on a public address."""
    if has_key:
        return
    log.warning(
        "no_key_exists",
        detail="no request can be authenticated: MIRRORGATE_ADMIN_KEY is not set, and no key is stored",
        remedy="Set MIRRORGATE_ADMIN_KEY; `mirrorgate keys generate` prints one.",
    )
    if settings.host not in LOOPBACK:
        raise Misconfigured(Code.PUBLIC_WITHOUT_KEY, f"the API would listen on {settings.host} without any API key")


def _start_facts(settings: Settings) -> dict[str, Any]:
    """Return what the log says at the start and at the end: version, address and processes."""
    scheme = "http" if settings.tls_certificate_file is None else "https"
    address = f"{scheme}://{settings.host}:{settings.port}"
    return {"version": version("mirrorgate"), "address": address, "processes": settings.api_processes}


@contextmanager
def _shared_metrics() -> Iterator[None]:
    """Let the API processes share their metrics, in the configured folder or in a temporary one."""
    if _METRICS_FOLDER in os.environ:
        yield
        return
    with locked_tempdir("metrics") as folder:
        os.environ[_METRICS_FOLDER] = str(folder)
        try:
            yield
        finally:
            del os.environ[_METRICS_FOLDER]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m app.main", description="Run the API.")
    parser.add_argument("--parent-pid", type=int, help="stop when the process with this id has ended")
    parent = parser.parse_args().parent_pid
    run_process(lambda: serve(Settings.from_environment(), parent_pid=parent), is_child=parent is not None)
