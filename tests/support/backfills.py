"""Backfills of row images without a drain around them: asked for, and carried out at once."""

from typing import Final
from uuid import UUID

import sqlalchemy as sa

from app.domain.model.table import Generation, Table
from app.staging.images import Backfill, OnBackfillStep, find_backfill, request_backfill, run_backfill, stop_backfill
from tests.support.gateway_parts import current
from tests.support.postgres import sql
from tests.support.postgres.ledger import claimed, owned_now, plan, publish
from tests.support.postgres.retention import purge

DRAIN: Final = UUID(int=1)
_ONE: Final = Generation(1)


class Died(Exception):
    """The drain dies."""


def ask(engine: sa.Engine, name: str) -> Table:
    """Ask for the backfill of a table in its first generation."""
    return sql.call(engine, request_backfill, current(engine, name).name, _ONE, "operator")


def cancel(engine: sa.Engine, name: str) -> None:
    """Cancel the backfill of a table in its first generation."""
    sql.call(engine, stop_backfill, current(engine, name).name, _ONE, "operator")


def carry_out(engine: sa.Engine, name: str, progress: OnBackfillStep = lambda _: None) -> None:
    """Let a drain that has just claimed the table carry out its backfill."""
    run_backfill(engine, claimed(engine, name, DRAIN), DRAIN, progress)


def backfilled(engine: sa.Engine, name: str, progress: OnBackfillStep = lambda _: None) -> Table:
    """Ask for a backfill, carry it out, and return the table."""
    ask(engine, name)
    carry_out(engine, name, progress)
    return current(engine, name)


def backfill_of(engine: sa.Engine, name: str) -> Backfill:
    """Return the last backfill of a table."""
    found = sql.call(engine, find_backfill, current(engine, name))
    assert found is not None
    return found


def purge_payloads(engine: sa.Engine, name: str) -> None:
    """Publish all batches of a table, and delete their payloads as retention does."""
    owned = owned_now(engine, name)
    for planned in plan(engine, owned):
        publish(engine, owned, planned)
    purge(engine)


def dies_after(steps: int, seen: list[Backfill] | None = None) -> OnBackfillStep:
    """Return what lets the drain die when that many steps are done."""
    calls: list[Backfill] = [] if seen is None else seen

    def die(backfill: Backfill) -> None:
        calls.append(backfill)
        if len(calls) > steps:
            raise Died

    return die
