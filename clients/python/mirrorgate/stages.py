"""Wait until accepted rows have reached a stage on their way to queries: `wait_until`.

The command `mirrorgate wait` and `mirrorgate.mirror(…, wait=…)` share it. It only asks the gateway: a process that dies
inside can wait again.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeAlias

from mirrorgate.errors import Code, MirrorgateError, Misconfigured, RejectedInput, TemporarilyUnavailable
from mirrorgate.http import GatewayClient
from mirrorgate.parameters import WAIT_SECONDS, Stage
from mirrorgate.producer import Patience, Stopped
from mirrorgate.retrying import is_temporary

Status: TypeAlias = Mapping[str, Any]
OnProgress: TypeAlias = Callable[[str, "Obstacle | None"], None]

_PUBLISHED_PAUSE: Final = 0.5
_FABRIC_PAUSE: Final = 2.0
"""Seconds between two questions. Drains ask Fabric once a minute by default."""

_HEALTH_PAUSE: Final = 10.0
"""Seconds without progress after which the state of the drain is asked for."""

_HOLDS_PUBLICATION: Final = frozenset({"table_quarantined", "table_failing", "table_paused", "not_staged"})
_HOLDS_FABRIC: Final = "fabric_table"

_REFRESH_REMEDY: Final = (
    "The drain retries within a minute. Its identity needs the role Contributor; `mirrorgate fabric refresh` shows "
    "what the endpoint says of each table."
)


class NotReached(TemporarilyUnavailable):
    """Error for rows that have not reached the stage in time, or for a gateway that has not answered."""

    exit_status: Final = 3
    """Exit status of the command: another try can succeed."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Reason why nothing moves, and the remedy."""

    detail: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.detail} {self.remedy}".strip()


def wait_until(
    client: GatewayClient,
    table: str,
    stage: Stage,
    *,
    timeout: float = WAIT_SECONDS,
    patience: Patience | None = None,
    on_progress: OnProgress = lambda _, __: None,
) -> Status:
    """Wait until all that the table has accepted before the call has reached a stage; return the table's last status.

    - *published*: each accepted batch is in a landing file that is visible. P is when the newest file was published, as
      known when that is first seen, so it is never before the file of the last accepted batch.
    - *processed*: Fabric's last synchronization of the table is at or after P, so it has read those files.
    - *queryable*: the drain has refreshed the SQL analytics endpoint after such a synchronization, without an error for
      the table, so that a query shows the rows.

    P is by the clock of Postgres, a synchronization by that of Fabric. Rows that are accepted during the wait do not
    prolong it, but for what shares the newest file. A table that has accepted nothing has reached each stage.

    `on_progress` gets what is reached, and what stops the rest, before each pause. Raises Misconfigured
    `fabric_not_watched` at once if the gateway cannot know the stage, NotReached after `timeout` seconds with what
    stops it, RejectedInput `generation_mismatch` if the table is recreated meanwhile, and RejectedByGateway.
    """
    if not timeout >= 0:  # NaN would never be over
        raise RejectedInput(Code.BAD_REQUEST, "timeout must be a number of seconds")
    patience = patience or Patience(0.0)
    began = moved = time.monotonic()
    answer = _asked(client, table, patience)
    _require_known(answer, stage)
    goal, seen, health = _Goal.of(answer["tables"][0], stage), "", dict[str, str]()
    while True:
        status = answer["tables"][0]
        goal = goal.seen(status)
        if goal.is_reached(status):
            return dict(status)
        now, progress = time.monotonic(), goal.progress(status)
        if progress != seen:
            moved, seen, health = now, progress, {}
        is_late = now - began >= timeout
        if not health and (is_late or now - moved >= min(_HEALTH_PAUSE, timeout / 4)):
            health = patience.call(client.parts)
        obstacle = next(goal.obstacles(answer, health), None)
        if is_late:
            raise _too_late(table, timeout, progress, obstacle)
        on_progress(progress, obstacle)
        if patience.stop.wait(min(goal.pause, began + timeout - now)):
            raise Stopped
        answer = _asked(client, table, patience)


@dataclass(frozen=True, slots=True)
class _Goal:
    """Goal of a wait: the stage for the batches of a generation through a sequence."""

    table: str
    generation: int
    sequence: int
    stage: Stage
    published_at: datetime | None = None
    """Time of the newest file's publication, as first known after the last of the batches was; None before that."""

    @classmethod
    def of(cls, status: Status, stage: Stage) -> "_Goal":
        return cls(status["table"], status["generation"], status["last_sequence"], stage)

    def seen(self, status: Status) -> "_Goal":
        """Return the goal after a check of the table. Raises RejectedInput for another generation."""
        if status["generation"] != self.generation:
            raise RejectedInput(
                Code.GENERATION_MISMATCH,
                f"{self.table} was recreated or rebuilt during the wait: it is generation {status['generation']} now",
                remedy="Wait again, for what the new generation has accepted.",
            )
        if self.published_at is None and self._is_published(status):
            return replace(self, published_at=_moment(status["published"]["last_at"]))
        return self

    def is_reached(self, status: Status) -> bool:
        """Return whether the batches have reached the stage."""
        if self.sequence == 0:
            return True
        if self.stage is Stage.PUBLISHED:
            return self._is_published(status)
        return self._is_after_publication(status, "last_sync" if self.stage is Stage.PROCESSED else "queryable_at")

    def progress(self, status: Status) -> str:
        """Return how far the batches are, in a few words."""
        if not self._is_published(status):
            return f"{min(status['published_through'], self.sequence):,} of {self.sequence:,} batches published"
        is_processed = self._is_after_publication(status, "last_sync")
        return "processed, not queryable yet" if is_processed else "published, not processed yet"

    @property
    def pause(self) -> float:
        """Seconds until the next look."""
        return _PUBLISHED_PAUSE if self.published_at is None else _FABRIC_PAUSE

    def obstacles(self, answer: Mapping[str, Any], health: Mapping[str, str]) -> Iterator[Obstacle]:
        """Yield what stops the batches, the nearest first. `health` is empty as long as something moves."""
        status, fabric = answer["tables"][0], answer["fabric"] or {}
        held = {trouble["kind"]: trouble for trouble in reversed(status["troubles"])}
        if not self._is_published(status):
            yield from (_of_trouble(trouble) for kind, trouble in held.items() if kind in _HOLDS_PUBLICATION)
            if health.get("drain", "ok") != "ok":
                yield Obstacle(_sentence(health["drain"]), "Start a drain with `mirrorgate drain`, or read its log.")
            return
        processed = status["processed"] or {}
        if fabric.get("problem"):
            yield Obstacle(_sentence(fabric["problem"]), fabric["remedy"])
        if _HOLDS_FABRIC in held:
            yield _of_trouble(held[_HOLDS_FABRIC])
        if processed.get("queryable_error") and self._is_after_publication(status, "last_sync"):
            detail = f"The refresh of the SQL analytics endpoint failed: {processed['queryable_error']}"
            yield Obstacle(_sentence(detail), _REFRESH_REMEDY)
        if health and not processed:
            yield Obstacle("Fabric does not list the table.", "It lists a table some minutes after its first file.")
        if health.get("drain", "ok") != "ok":
            yield Obstacle(_sentence(health["drain"]), "A drain asks Fabric: start one with `mirrorgate drain`.")

    def _is_published(self, status: Status) -> bool:
        return bool(status["published_through"] >= self.sequence)

    def _is_after_publication(self, status: Status, field: str) -> bool:
        """Return whether Fabric has done something at or after the publication of the batches."""
        done = _moment((status["processed"] or {}).get(field))
        return self.published_at is not None and done is not None and done >= self.published_at


def _asked(client: GatewayClient, table: str, patience: Patience) -> Mapping[str, Any]:
    """Return the status of the table, and of the mirrored database."""
    try:
        answer: Mapping[str, Any] = patience.call(lambda: client.get("/v1/tables", table=table))
    except MirrorgateError as error:
        if is_temporary(error):
            raise NotReached(error.code, error.detail, remedy=error.remedy) from error
        raise
    return answer


def _require_known(answer: Mapping[str, Any], stage: Stage) -> None:
    """Raise Misconfigured if this gateway never knows the stage."""
    fabric, processed = answer["fabric"], answer["tables"][0]["processed"]
    if stage is Stage.PROCESSED and fabric is None and processed is None:
        raise Misconfigured(Code.FABRIC_NOT_WATCHED, "this gateway does not know what Fabric has processed")
    if stage is Stage.QUERYABLE and not (fabric or {}).get("refreshes_sql"):
        raise Misconfigured(
            Code.FABRIC_NOT_WATCHED,
            "this gateway does not know what queries show"
            + ("" if fabric is None else ": its drain does not refresh the SQL analytics endpoint"),
            remedy=None if fabric is None else "Set MIRRORGATE_FABRIC_REFRESH_SQL=true for the drain and restart it.",
        )


def _too_late(table: str, timeout: float, progress: str, obstacle: Obstacle | None) -> NotReached:
    """Return the error of a wait that has ended."""
    why = "" if obstacle is None else f". {obstacle.detail.rstrip('.')}"
    detail = f"{table}: {progress} after {timeout:,.0f} seconds{why}"
    return NotReached(Code.WAIT_TIMED_OUT, detail, remedy=None if obstacle is None else obstacle.remedy)


def _of_trouble(trouble: Mapping[str, Any]) -> Obstacle:
    return Obstacle(_sentence(trouble["detail"]), trouble["remedy"])


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
