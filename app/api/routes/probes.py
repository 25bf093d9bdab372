"""Probes: does this process serve, can it accept changes, how is the whole gateway.

None needs a key, and none names a table.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from fastapi import APIRouter, Response

from app.api.gateway import Gateway, GatewayOf
from app.api.schemas.probes import GatewayStatusModel, HealthModel, ReadinessModel, WriterModel
from app.domain.preflight.readiness import OK, GatewayFacts, judge_backlog, judge_gateway, judge_writer
from app.errors import MirrorgateError
from app.staging.connection.database import answer_within, translated_errors
from app.staging.tables.gateway_status import gateway_facts

router = APIRouter(tags=["status"])

ANSWER_SECONDS: Final = 3.0
"""What a probe waits for Postgres: less than callers of probes do."""

KEPT_SECONDS: Final = 1.0
"""How long an answer on the whole gateway is given again, since anybody may ask."""

_THREADS: Final = ThreadPoolExecutor(4, thread_name_prefix="probe")
"""Of the probes alone: those of other calls may all be waiting for Postgres."""

_UNKNOWN: Final = "unknown while the database is unavailable"


@router.get("/healthz", operation_id="get_health", summary="Whether this process serves", response_model=HealthModel)
async def healthz() -> HealthModel:
    return HealthModel(status="ok")


@router.get(
    "/readyz",
    operation_id="get_readiness",
    summary="Whether this process can accept changes",
    response_model=ReadinessModel,
    responses={503: {"description": "This process cannot accept changes now", "model": ReadinessModel}},
)
async def readyz(gateway: GatewayOf, response: Response) -> ReadinessModel:
    """Says what the writer of this process really does: its last commit, the oldest request that waits for it, and
    whether Postgres answers it and takes writes. The drain does not matter here: see `/statusz`.
    """
    answer = await asyncio.get_running_loop().run_in_executor(_THREADS, _readiness, gateway)
    response.status_code = 200 if answer.ready else 503
    return answer


@router.get(
    "/statusz",
    operation_id="get_gateway_status",
    summary="Whether every part of the gateway works, and which does not",
    response_model=GatewayStatusModel,
    responses={503: {"description": "A part needs somebody to look at it", "model": GatewayStatusModel}},
)
async def statusz(gateway: GatewayOf, response: Response) -> GatewayStatusModel:
    """Adds to `/readyz` the drains, tables that do not publish, full backlogs, what Fabric reports, and clocks. Counts
    only: `/v1/tables` and `/metrics` have the names. An answer may be a second old.
    """
    look = partial(gateway.statusz.get, partial(_gateway_status, gateway), KEPT_SECONDS)
    answer = await asyncio.get_running_loop().run_in_executor(_THREADS, look)
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
    parts = {"api": OK, "database": OK if trouble is None else trouble.detail, "writer": writer}
    return ReadinessModel(
        ready=_all_ok(parts),
        parts=parts,
        writer=WriterModel(
            waiting_requests=state.waiting_requests,
            oldest_waiting_seconds=state.oldest_waiting_seconds,
            last_commit_seconds=state.last_commit_seconds,
            last_failure_seconds=state.last_failure_seconds,
        ),
    )


def _gateway_status(gateway: Gateway) -> GatewayStatusModel:
    readiness = _readiness(gateway)
    facts = _facts(gateway) if readiness.parts["database"] == OK else None
    others = dict.fromkeys(("drain", "tables", "mirror", "clock"), _UNKNOWN) if facts is None else judge_gateway(facts)
    share = gateway.ingest.backlog.fullest_share() if gateway.ingest.backlog is not None else 0.0
    parts = {**readiness.parts, **others, "backlog": judge_backlog(share)}
    return GatewayStatusModel(
        ready=_all_ok(parts),
        parts=parts,
        writer=readiness.writer,
        drains=facts.drains if facts else None,
        tables=dict(facts.tables) if facts else None,
        backlog_share=share,
        clock_behind_seconds=facts.clock_behind_seconds if facts else None,
    )


def _facts(gateway: Gateway) -> GatewayFacts | None:
    try:
        with translated_errors(), answer_within(ANSWER_SECONDS), gateway.engine.begin() as connection:
            return gateway_facts(connection)
    except MirrorgateError:
        return None


def _all_ok(parts: dict[str, str]) -> bool:
    return all(state == OK for state in parts.values())
