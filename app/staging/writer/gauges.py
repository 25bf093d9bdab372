"""Gauges of the staging thread and of the connection pool, set several times within each deadline."""

import time

import sqlalchemy as sa

from app.observability.telemetry import (
    DATABASE_CONNECTIONS,
    LAST_COMMIT,
    OLDEST_WAITING,
    WAITING_REQUESTS,
    WRITER_FAILS,
)
from app.staging.writer.state import WriterState


def export_writer_state(engine: sa.Engine, state: WriterState) -> None:
    """Set the gauges of this process to the writer's state and to the engine's pool."""
    WAITING_REQUESTS.set(state.waiting_requests)
    OLDEST_WAITING.set(state.oldest_waiting_seconds or 0.0)
    WRITER_FAILS.set(float(state.failure is not None))
    if state.last_commit_seconds is not None:
        LAST_COMMIT.set(time.time() - state.last_commit_seconds)
    pool = engine.pool
    if isinstance(pool, sa.pool.QueuePool):
        DATABASE_CONNECTIONS.labels("in_use").set(pool.checkedout())
        DATABASE_CONNECTIONS.labels("idle").set(pool.checkedin())
