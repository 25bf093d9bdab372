"""Answers of the probes."""

from typing import Literal

from app.api.schemas.common import Model


class HealthModel(Model):
    """This process serves."""

    status: Literal["ok"]


class WriterModel(Model):
    """What the writer of this process does. Ages in seconds, null for what has not happened or is not so now."""

    waiting_requests: int
    """Change requests that wait for the next transaction."""

    oldest_waiting_seconds: float | None
    last_commit_seconds: float | None
    """Since it last committed changes."""

    last_failure_seconds: float | None
    """Since a transaction last failed because of the database."""


class ReadinessModel(Model):
    """`parts` says of each part `ok` or what is wrong with it: `api`, `database` and `writer`."""

    ready: bool
    parts: dict[str, str]
    writer: WriterModel


class GatewayStatusModel(Model):
    """`parts` has beside those of `/readyz`: `drain`, `tables`, `backlog`, `mirror` and `clock`."""

    ready: bool
    """Every part is `ok`."""

    parts: dict[str, str]
    writer: WriterModel
    drains: int | None
    """Drains whose lease has not run out; null while the database does not answer, as the next ones."""

    tables: dict[str, int] | None
    """How many tables there are by state."""

    backlog_share: float
    """The fullest backlog as a share of its limit; at 1 changes are rejected."""

    clock_behind_seconds: float | None
    """How far this process's clock is behind that of Postgres; negative when it is ahead."""
