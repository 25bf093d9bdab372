"""Answers of the probes."""

from typing import Literal

from app.api.schemas.common import Model


class HealthModel(Model):
    """The answer of a process that serves."""

    status: Literal["ok"]


class WriterModel(Model):
    """What the writer of this process does. Ages are in seconds; null if nothing has happened or nothing waits."""

    waiting_requests: int
    """Change requests that wait for the next transaction."""

    oldest_waiting_seconds: float | None
    last_commit_seconds: float | None
    """Seconds since the last commit of changes."""

    last_failure_seconds: float | None
    """Seconds since a transaction last failed because of the database."""


class ReadinessModel(Model):
    """The readiness of this process. `parts` (`api`, `database`, `writer`, `masks`) are `ok` or say what is wrong."""

    ready: bool
    parts: dict[str, str]
    writer: WriterModel


class GatewayStatusModel(Model):
    """The state of the gateway: the parts of `/readyz`, and six more.

    These are `drain`, `tables`, `backlog`, `fabric`, `mirror` and `clock`.
    """

    ready: bool
    """True if every part is `ok`."""

    parts: dict[str, str]
    writer: WriterModel
    drains: int | None
    """Drains with a valid lease; null while the database does not answer."""

    tables: dict[str, int] | None
    """The number of tables by state; null while the database does not answer."""

    backlog_share: float
    """The fullest backlog as a share of its limit; at 1 changes are rejected."""

    clock_behind_seconds: float | None
    """How many seconds the clock of this process is behind the clock of Postgres; negative if it is ahead."""
