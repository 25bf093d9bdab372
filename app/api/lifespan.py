"""Open the database and start the threads of an API process, and close all of them at its end.

Invariant: every thread that the API starts is started here and joined here, so a test can prove that none is left.
docs/contribute/architecture.md lists the threads.
"""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

import structlog

from app.api.alerting import AlertWatch, Webhook
from app.api.auth.authenticator import Authenticator
from app.api.auth.oidc import OidcVerifier, code_flow, token_verifier
from app.api.gateway import CachedAnswer, Gateway, MirrorRows
from app.api.limits import RateLimiter
from app.api.schemas.status import ReadinessModel
from app.domain.access.mask_secret import HashedTables, MaskSecret
from app.domain.access.rights import RateLimits
from app.domain.health.facts import HealthFacts
from app.domain.publication import BacklogLimit
from app.extras import is_installed
from app.ingest import BacklogWatch, Ingest
from app.observability.api_metrics import API_PROCESSES, RESOURCE_LOW
from app.observability.periodic_thread import PeriodicThread
from app.observability.resource_watch import ResourceWatch
from app.observability.tracing import traced
from app.settings import Settings
from app.staging.access.audit_events import AuditWriter
from app.staging.connection.database import Engine, disposed, driver_url, open_engine, translated_errors
from app.staging.connection.notifications import NotificationSender
from app.staging.retention.history import take_sample
from app.staging.writer.group_commit import GroupCommit, WriterProbe, export_writer_state

log = structlog.get_logger()

_POOL_SIZE: Final = 10
_PROBE_THREADS: Final = 4


@contextmanager
def running_gateway(settings: Settings) -> Iterator[Gateway]:
    """Give the parts of a running API process. At the end, finish what was submitted and stop every thread.

    The parts close in the reverse order of this function: first what takes requests, last the database.
    """
    with ExitStack() as stack:
        stack.enter_context(traced(settings, "api"))
        engine = stack.enter_context(disposed(_open_pool(settings)))
        backlog = stack.enter_context(_running_backlog_watch(settings))
        audit_writer = stack.enter_context(AuditWriter(engine))
        staged = threading.Event()
        stack.enter_context(NotificationSender(driver_url(engine), staged))
        watch = partial(export_writer_state, engine)
        group_commit = GroupCommit(engine, staged=staged, deadline_seconds=settings.database_seconds / 2, watch=watch)
        group_commit.start()
        stack.callback(group_commit.close)
        mask_secret = MaskSecret.given(settings.mask_secret_bytes)
        ingest = Ingest(engine, group_commit, settings.marker_first, backlog, mask_secret)
        stack.callback(ingest.close)
        probe_threads = ThreadPoolExecutor(_PROBE_THREADS, thread_name_prefix="probe")
        stack.callback(probe_threads.shutdown)
        _start_alerts(settings, engine, backlog, stack)
        tokens = _start_token_verifier(settings, stack)
        if settings.console:
            stack.enter_context(_history_sampler(engine))
        stack.enter_context(ResourceWatch(low=RESOURCE_LOW))
        API_PROCESSES.set(1)
        yield Gateway(
            settings=settings,
            engine=engine,
            authenticator=_authenticator(settings, engine, audit_writer, tokens),
            code_flow=code_flow(settings, tokens) if settings.console else None,
            audit_writer=audit_writer,
            ingest=ingest,
            writer=WriterProbe(group_commit),
            health_cache=CachedAnswer[tuple[ReadinessModel, HealthFacts]](),
            hashed_tables=CachedAnswer[HashedTables | None](),
            probe_threads=probe_threads,
            mirror_rows=_open_mirror(settings, stack),
            staged=staged,
        )


def _open_pool(settings: Settings) -> Engine:
    return open_engine(
        settings.require_database_url(),
        pool_size=_POOL_SIZE,
        application="mirrorgate api",
        silence_seconds=settings.database_seconds,
        bound_statements=True,
    )


@contextmanager
def _running_backlog_watch(settings: Settings) -> Iterator[BacklogWatch]:
    """Yield a backlog watch with a separate connection, so that it works when requests use all the others."""
    engine = open_engine(
        settings.require_database_url(),
        pool_size=1,
        application="mirrorgate backlog",
        silence_seconds=settings.database_seconds,
    )
    of_table = BacklogLimit(settings.max_backlog_bytes, settings.max_backlog_rows, settings.max_backlog_seconds)
    of_all = BacklogLimit(settings.max_total_backlog_bytes, settings.max_total_backlog_rows)
    watch = BacklogWatch(engine, of_table, of_all)
    with disposed(engine):
        watch.start()
        try:
            yield watch
        finally:
            watch.close()


def _history_sampler(engine: Engine) -> PeriodicThread:
    """Return a thread that tries shortly after each full minute to take the sample for the console's plots.

    Postgres lets one API process take each minute's sample. A failure leaves the counts to the next sample.
    """

    def sample() -> None:
        with translated_errors(), engine.begin() as connection:
            take_sample(connection)

    return PeriodicThread(
        "history-sampler",
        lambda: 61.0 - time.time() % 60.0,
        sample,
        on_failure=lambda error: log.warning("history_sample_failed", error=type(error).__name__),
        waits_first=True,
    )


def _start_alerts(settings: Settings, engine: Engine, backlog: BacklogWatch, stack: ExitStack) -> None:
    if settings.alert_url is not None:
        webhook = Webhook(settings.alert_url, settings.alert_secret)
        stack.enter_context(AlertWatch(engine, webhook, settings.alert_after_seconds, backlog).thread())


def _open_mirror(settings: Settings, stack: ExitStack) -> MirrorRows | None:
    if settings.mirror_target is None or not is_installed("deltalake"):
        return None
    mirror_rows = MirrorRows(settings.require_mirror_target(), settings.mirror_options)
    stack.callback(mirror_rows.close)
    return mirror_rows


def _start_token_verifier(settings: Settings, stack: ExitStack) -> OidcVerifier | None:
    tokens = token_verifier(settings)
    if tokens is not None:
        tokens.start()
        stack.callback(tokens.close)
    return tokens


def _authenticator(
    settings: Settings, engine: Engine, audit_writer: AuditWriter, tokens: OidcVerifier | None
) -> Authenticator:
    admin_key = settings.admin_key.get_secret_value() if settings.admin_key else None
    limits = RateLimits(settings.key_requests_per_second, settings.key_bytes_per_second)
    signing_key = settings.signing_key.get_secret_value() if settings.signing_key else None
    return Authenticator(engine, admin_key, audit_writer, tokens, RateLimiter(limits), signing_key)
