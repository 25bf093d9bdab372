"""Probes and metrics.

`/healthz`: this process serves. `/readyz`: it can accept changes. `/statusz`: the whole gateway works. Probes require
no key and name no table. `/readyz` and `/statusz` run on separate threads, with a time limit for Postgres, so that they
answer even if every other thread waits for the database. `/metrics` has the metrics of the processes, and those of the
tables that the key can see.
"""

import asyncio
import os
from functools import partial
from typing import Final

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from app.api.auth.dependencies import Reader
from app.api.gateway import Gateway, GatewayDep
from app.api.openapi.document import problems
from app.api.schemas.status import GatewayStatusModel, HealthModel, ReadinessModel, WriterModel
from app.api.scrape import ScrapeFacts, ScrapeMetrics, read_facts
from app.domain.access.rights import Principal
from app.domain.health.facts import GatewayFacts, HealthFacts, ProcessFacts
from app.domain.health.troubles import OK, is_ready, parts, process_parts
from app.observability.process_metrics import BuildInfo
from app.staging.connection.database import answer_within, translated_errors
from app.staging.connection.schema_revision import program_revision
from app.staging.tables.status import gateway_facts
from mirrorgate.errors import MirrorgateError, TemporarilyUnavailable

router = APIRouter(tags=["status"])

ANSWER_SECONDS: Final = 3.0
"""Seconds for which a probe waits for Postgres: less than the usual timeout of a caller."""

CACHE_SECONDS: Final = 1.0
"""Seconds for which an answer of `/statusz` is repeated, because anyone can ask for it."""


@router.get("/healthz", summary="Check that this process serves")
async def get_health() -> HealthModel:
    """Answer without checking anything."""
    return HealthModel(status="ok")


@router.get(
    "/readyz",
    summary="Check that this process can accept changes",
    responses={503: {"description": "This process cannot accept changes now", "model": ReadinessModel}},
)
async def get_readiness(gateway: GatewayDep, response: Response) -> ReadinessModel:
    """Report what the writer of this process does.

    It checks the last commit, the oldest waiting request, whether Postgres answers and accepts writes, and whether this
    process has the secret of tables with hashed columns; without it only a process that was never ready is not ready.
    The drain is not checked; see `/statusz`.
    """
    loop = asyncio.get_running_loop()
    answer, _ = await loop.run_in_executor(gateway.probe_threads, _readiness, gateway)
    response.status_code = 200 if answer.ready else 503
    return answer


@router.get(
    "/statusz",
    summary="Check every part of the gateway",
    responses={503: {"description": "A part of the gateway needs attention", "model": GatewayStatusModel}},
)
async def get_gateway_status(gateway: GatewayDep, response: Response) -> GatewayStatusModel:
    """Report the parts of `/readyz`, and in addition drains, tables, backlogs, Fabric and clocks.

    The answer has counts only; `/v1/tables` and `/metrics` have the names. It can be one second old.
    """
    look_up = partial(gateway_health, gateway)
    readiness, facts = await asyncio.get_running_loop().run_in_executor(gateway.probe_threads, look_up)
    states, known = parts(facts), facts.gateway
    ready = all(state == OK for state in states.values())
    response.status_code = 200 if ready else 503
    return GatewayStatusModel(
        ready=ready,
        parts=states,
        writer=readiness.writer,
        drains=known.drains if known else None,
        tables=dict(known.tables) if known else None,
        backlog_share=facts.fullest_share,
        clock_behind_seconds=known.clock_behind_seconds if known else None,
    )


def gateway_health(gateway: Gateway) -> tuple[ReadinessModel, HealthFacts]:
    """Return what is known of this process and the gateway, without tables, at most CACHE_SECONDS old.

    Takes some seconds if Postgres does not answer.
    """
    return gateway.health_cache.get(partial(_gateway_health, gateway), CACHE_SECONDS)


def _gateway_health(gateway: Gateway) -> tuple[ReadinessModel, HealthFacts]:
    readiness, process = _readiness(gateway)
    facts = _query_facts(gateway) if process.database is None else None
    backlog = gateway.ingest.backlog
    total_share = 0.0 if backlog is None else backlog.total_share()
    return readiness, HealthFacts(process, facts, shares=gateway.backlog_shares, total_share=total_share)


def _readiness(gateway: Gateway) -> tuple[ReadinessModel, ProcessFacts]:
    state, trouble = gateway.writer.check(ANSWER_SECONDS)
    facts = ProcessFacts(
        database=None if trouble is None else trouble.detail,
        masks=None if trouble is not None else _masks_fault(gateway),
        writer_failure=state.failure,
        writer_failed_seconds=state.last_failure_seconds,
        oldest_request_seconds=state.oldest_waiting_seconds,
        oldest_request_limit=gateway.settings.database_seconds / 2,
    )
    states = process_parts(facts)
    ready = is_ready(states, gateway.was_ready.is_set())
    if ready:
        gateway.was_ready.set()
    writer = WriterModel(
        waiting_requests=state.waiting_requests,
        oldest_waiting_seconds=state.oldest_waiting_seconds,
        last_commit_seconds=state.last_commit_seconds,
        last_failure_seconds=state.last_failure_seconds,
    )
    return ReadinessModel(ready=ready, parts=states, writer=writer), facts


def _masks_fault(gateway: Gateway) -> str | None:
    """Return why this process cannot serve tables with hashed columns, if it cannot."""
    found = gateway.hashed_tables.get(partial(gateway.writer.hashed_tables, ANSWER_SECONDS), CACHE_SECONDS)
    return None if found is None else found.trouble(gateway.ingest.mask_secret)


def _query_facts(gateway: Gateway) -> GatewayFacts | None:
    """Return what Postgres knows of the gateway; None if it does not answer in time."""
    try:
        with translated_errors(), answer_within(ANSWER_SECONDS), gateway.engine.begin() as connection:
            return gateway_facts(connection)
    except MirrorgateError:
        return None


SCRAPE_SECONDS: Final = 8.0
"""Seconds for which a scrape waits for Postgres: less than Prometheus waits for a scrape, 10 s."""


@router.get(
    "/metrics",
    summary="Get metrics in the Prometheus text format, for the tables that the key can see",
    response_class=Response,
    responses={
        200: {"description": "The metrics", "content": {"text/plain": {"schema": {"type": "string"}}}},
        **problems(401, 403, 503),
    },
)
def get_metrics(gateway: GatewayDep, principal: Reader) -> Response:
    """Merge the metrics of all API processes that share this port.

    Without the database, the answer has the metrics of the processes alone, with `mirrorgate_database_up` 0.
    """
    registry = CollectorRegistry()
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:  # the switch of prometheus-client, set if processes share a port
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the package has no types for it
    else:
        registry.register(REGISTRY)
    registry.register(BuildInfo("api", program_revision()))
    registry.register(ScrapeMetrics(_facts(gateway, principal)))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def _facts(gateway: Gateway, principal: Principal) -> ScrapeFacts | None:
    try:
        with translated_errors(), answer_within(SCRAPE_SECONDS), gateway.engine.begin() as connection:
            return read_facts(connection, principal, gateway)
    except TemporarilyUnavailable:
        return None
