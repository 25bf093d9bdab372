"""The parts of an API process that routes need. `app.api.lifespan` builds and closes them."""

import threading
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Final

from fastapi import Depends, Request
from starlette.types import Scope

from app.api.auth.authenticator import Authenticator
from app.api.auth.code_flow import CodeFlow
from app.api.cached_answer import CachedAnswer
from app.api.limits.body_semaphore import ConcurrencyLimit
from app.api.mirror_rows import MirrorRows
from app.api.schemas.status import ReadinessModel
from app.domain.access.mask_secret import HashedTables
from app.domain.health.facts import HealthFacts
from app.domain.model.change import InputLimits
from app.domain.model.table import TableLife
from app.ingest import Ingest
from app.settings import Settings
from app.staging.access.audit_events import AuditWriter
from app.staging.connection.database import Engine
from app.staging.writer.group_commit import WriterProbe

MAX_CHECKS: Final = 2
"""Comparisons with sources at a time: each holds a connection of the pool for as long as its table is large."""
CHECK_SECONDS: Final = 60.0
"""Seconds for which another one waits."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """The parts of one API process."""

    settings: Settings
    engine: Engine
    authenticator: Authenticator
    code_flow: CodeFlow | None
    """Signs people in to the console at an identity provider; None without one."""
    audit_writer: AuditWriter
    ingest: Ingest
    writer: WriterProbe
    health_cache: CachedAnswer[tuple[ReadinessModel, HealthFacts]]
    """Cache of the health in `/statusz`, which anyone can ask for."""
    hashed_tables: CachedAnswer[HashedTables | None]
    """The tables with hashed columns, for `/readyz`; None while Postgres does not answer."""
    probe_threads: Executor
    """Threads of the probes alone: those of other routes may all be waiting for Postgres."""
    mirror_rows: MirrorRows | None
    """Reads rows of mirrored tables; None without a mirror's target."""
    staged: threading.Event
    """Set after a commit that the drain should publish soon."""
    check_limit: ConcurrencyLimit = field(
        default_factory=partial(ConcurrencyLimit, "a comparison", MAX_CHECKS, CHECK_SECONDS)
    )
    """Of comparisons with sources, which read whole tables."""
    was_ready: threading.Event = field(default_factory=threading.Event)
    """Set once `/readyz` has answered 200."""
    input_limits: InputLimits = field(init=False)
    """The limits for the messages of one request."""

    def __post_init__(self) -> None:
        limits = InputLimits(self.settings.max_request_messages, self.settings.max_value_bytes)
        object.__setattr__(self, "input_limits", limits)

    @property
    def backlog_shares(self) -> Mapping[TableLife, float]:
        """Return the backlog of each table that lags as a share of its limit; nothing while it is not watched."""
        return {} if self.ingest.backlog is None else self.ingest.backlog.shares()

    def wake_drain(self) -> None:
        """Notify the drains, without waiting for them."""
        self.staged.set()


def gateway_in(scope: Scope) -> Gateway:
    """Return the gateway of the running application, of the scope of one of its requests."""
    gateway: Gateway = scope["app"].gateway
    return gateway


async def _gateway_dependency(request: Request) -> Gateway:
    """Return the gateway. A coroutine, because FastAPI calls a plain function in a worker thread."""
    return gateway_in(request.scope)


GatewayDep = Annotated[Gateway, Depends(_gateway_dependency)]
"""A route's parameter of this type is the gateway of the process."""
