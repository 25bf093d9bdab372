"""The parts of an API process that routes need. `app.api.lifespan` builds and closes them.

Rows of mirrored tables are read on two separate threads and within a time limit. Other routes therefore never wait
behind a slow object store, and few pages are in memory at a time. The packages that read Delta tables are imported only
if a target is configured: they take memory, and the extra `rows`.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar

from fastapi import Depends, Request
from starlette.types import Scope

from app.api.auth.authenticator import Authenticator
from app.api.auth.oidc import CodeFlow
from app.api.limits import ConcurrencyLimit
from app.api.schemas.status import ReadinessModel
from app.domain.access.mask_secret import HashedTables
from app.domain.health.facts import HealthFacts
from app.domain.model.change import InputLimits
from app.domain.model.names import TableName
from app.domain.model.table import TableLife
from app.ingest import Ingest
from app.settings import Settings
from app.staging.access.audit_events import AuditWriter
from app.staging.connection.database import Engine
from app.staging.writer.group_commit import WriterProbe
from mirrorgate.errors import Code, RejectedInput, TemporarilyUnavailable

if TYPE_CHECKING:
    from app.domain.model.table_schema import Column
    from app.mirror.typed_rows import RowPage

ANSWER_SECONDS: Final = 30.0
"""Seconds for which a caller waits for its rows."""

MAX_READS: Final = 2
"""Pages that are read at a time."""


class MirrorRows:
    """Pages of rows in one mirror's target."""

    def __init__(self, location: str, storage_options: Mapping[str, str]) -> None:
        from app.mirror.target import MirrorTarget
        from app.mirror.typed_rows import read_rows, typed_rows
        from app.published.table_files import PublishedTable

        self._published = PublishedTable.at
        target = MirrorTarget(location, storage_options)
        self._read = partial(read_rows, target)
        self._typed = partial(typed_rows, target)
        self._threads = ThreadPoolExecutor(MAX_READS, thread_name_prefix="mirror-rows")

    async def read(self, table: TableName, version: int | None, limit: int) -> "RowPage":
        """Return a page of rows, as `read_rows`. Raises TemporarilyUnavailable if that takes too long."""
        loop = asyncio.get_running_loop()
        read = partial(self._read, self._published(table.folder), version=version, limit=limit)
        try:
            return await asyncio.wait_for(loop.run_in_executor(self._threads, read), ANSWER_SECONDS)
        except TimeoutError:
            raise TemporarilyUnavailable(
                Code.MIRROR_AWAY, f"the mirror's target did not answer within {ANSWER_SECONDS:.0f} s"
            ) from None

    def typed(self, table: TableName, columns: "Sequence[Column]", flag: str | None) -> Iterator[Sequence[Any]]:
        """Yield all rows of a table in the calling thread, as `typed_rows`. It takes as long as the table is large."""
        return self._typed(self._published(table.folder), columns, flag)

    def close(self) -> None:
        """Wait for the pages that are being read, and stop the threads."""
        self._threads.shutdown(cancel_futures=True)


_Answer = TypeVar("_Answer")


class CachedAnswer(Generic[_Answer]):
    """Cache of one answer. Thread-safe: callers that ask while it is computed wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answer: tuple[_Answer, float] | None = None

    def get(self, compute: Callable[[], _Answer], max_age: float) -> _Answer:
        """Return the kept answer, or compute a new one if it is older than `max_age` seconds."""
        with self._lock:
            if self._answer is None or time.monotonic() - self._answer[1] > max_age:
                self._answer = compute(), time.monotonic()
            return self._answer[0]


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
    """Reads rows of mirrored tables; None without a mirror's target or the extra `rows`."""
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

    def require_mirror_rows(self) -> MirrorRows:
        """Return the reader of rows of mirrored tables. Raises RejectedInput `not_mirrored` without one."""
        if self.settings.mirror_target is None:
            raise RejectedInput(
                Code.NOT_MIRRORED, "this API has no target of a mirror: MIRRORGATE_MIRROR_TARGET is not set"
            )
        if self.mirror_rows is None:
            remedy = "Install the extra `mirrorgate-gateway[rows]`, or build the API's image with `--build-arg ROWS=1`."
            raise RejectedInput(Code.NOT_MIRRORED, "this API lacks the packages that read rows", remedy=remedy)
        return self.mirror_rows

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
