"""Probes: `/healthz` (this process serves), `/readyz` (it can accept changes), `/statusz` (the whole gateway works).

They require no key and name no table. `/readyz` and `/statusz` run on threads of their own, with a time limit for
Postgres, so that they answer even if every other thread waits for the database.
"""

import asyncio
from functools import partial
from typing import Final

from fastapi import APIRouter, Response

from app.api.gateway import Gateway, GatewayDep
from app.api.schemas.probes import GatewayStatusModel, HealthModel, ReadinessModel, WriterModel
from app.domain.preflight.readiness import OK, GatewayFacts, is_ready, judge_backlog, judge_gateway, judge_writer
from app.errors import MirrorgateError
from app.staging.connection.database import answer_within, translated_errors
from app.staging.tables.gateway_status import gateway_facts

router = APIRouter(tags=["status"])

ANSWER_SECONDS: Final = 3.0
"""How long a probe waits for Postgres: less than the usual timeout of a caller."""

CACHE_SECONDS: Final = 1.0
"""How long an answer of `/statusz` is repeated, because anyone can ask for it."""

_UNKNOWN: Final = "unknown while the database is unavailable"


@router.get("/healthz", operation_id="get_health", summary="Check that this process serves", response_model=HealthModel)
async def healthz() -> HealthModel:
    """Answer without checking anything."""
    return HealthModel(status="ok")


@router.get(
    "/readyz",
    operation_id="get_readiness",
    summary="Check that this process can accept changes",
    response_model=ReadinessModel,
    responses={503: {"description": "This process cannot accept changes now", "model": ReadinessModel}},
)
async def readyz(gateway: GatewayDep, response: Response) -> ReadinessModel:
    """Report what the writer of this process does.

    It checks the last commit, the oldest waiting request, whether Postgres answers and accepts writes, and whether this
    process has the secret of tables with hashed columns; without it only a process that was never ready is not ready.
    The drain is not checked; see `/statusz`.
    """
    loop = asyncio.get_running_loop()
    answer = await loop.run_in_executor(gateway.probe_threads, _readiness, gateway)
    response.status_code = 200 if answer.ready else 503
    return answer


@router.get(
    "/statusz",
    operation_id="get_gateway_status",
    summary="Check every part of the gateway",
    response_model=GatewayStatusModel,
    responses={503: {"description": "A part of the gateway needs attention", "model": GatewayStatusModel}},
)
async def statusz(gateway: GatewayDep, response: Response) -> GatewayStatusModel:
    """Report the parts of `/readyz`, and in addition drains, tables, backlogs, Fabric and clocks.

    The answer has counts only; `/v1/tables` and `/metrics` have the names. It can be one second old.
    """
    look_up = partial(gateway_status, gateway)
    answer = await asyncio.get_running_loop().run_in_executor(gateway.probe_threads, look_up)
    response.status_code = 200 if answer.ready else 503
    return answer


def _readiness(gateway: Gateway) -> ReadinessModel:
    state, trouble = gateway.writer.check(ANSWER_SECONDS)
    writer = judge_writer(
        failure=state.failure,
        failed_seconds=state.last_failure_seconds,
        oldest_seconds=state.oldest_waiting_seconds,
        limit_seconds=gateway.settings.database_seconds / 2,
    )
    parts = {
        "api": OK,
        "database": OK if trouble is None else trouble.detail,
        "writer": writer,
        "masks": OK if trouble is not None else _judge_masks(gateway),
    }
    ready = is_ready(parts, gateway.was_ready.is_set())
    if ready:
        gateway.was_ready.set()
    return ReadinessModel(
        ready=ready,
        parts=parts,
        writer=WriterModel(
            waiting_requests=state.waiting_requests,
            oldest_waiting_seconds=state.oldest_waiting_seconds,
            last_commit_seconds=state.last_commit_seconds,
            last_failure_seconds=state.last_failure_seconds,
        ),
    )


def _judge_masks(gateway: Gateway) -> str:
    """Return `ok`, or why this process cannot serve tables with hashed columns."""
    found = gateway.hashed_tables.get(partial(gateway.writer.hashed_tables, ANSWER_SECONDS), CACHE_SECONDS)
    return OK if found is None else found.trouble(gateway.ingest.mask_secret) or OK


def gateway_status(gateway: Gateway) -> GatewayStatusModel:
    """Return the state of the parts, at most CACHE_SECONDS old.

    Takes some seconds if Postgres does not answer.
    """
    return gateway.status_cache.get(partial(_gateway_status, gateway), CACHE_SECONDS)


def _gateway_status(gateway: Gateway) -> GatewayStatusModel:
    readiness = _readiness(gateway)
    facts = _query_facts(gateway) if readiness.parts["database"] == OK else None
    others = (
        dict.fromkeys(("drain", "tables", "fabric", "mirror", "clock"), _UNKNOWN)
        if facts is None
        else judge_gateway(facts)
    )
    share = gateway.ingest.backlog.fullest_share() if gateway.ingest.backlog is not None else 0.0
    parts = {**readiness.parts, **others, "backlog": judge_backlog(share)}
    return GatewayStatusModel(
        ready=all(state == OK for state in parts.values()),
        parts=parts,
        writer=readiness.writer,
        drains=facts.drains if facts else None,
        tables=dict(facts.tables) if facts else None,
        backlog_share=share,
        clock_behind_seconds=facts.clock_behind_seconds if facts else None,
    )


def _query_facts(gateway: Gateway) -> GatewayFacts | None:
    """Return what Postgres knows of the gateway; None if it does not answer in time."""
    try:
        with translated_errors(), answer_within(ANSWER_SECONDS), gateway.engine.begin() as connection:
            return gateway_facts(connection)
    except MirrorgateError:
        return None
