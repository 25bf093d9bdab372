"""`GET /metrics`: the process metrics, and those of the tables that the key can see."""

import os
from typing import Final

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from app.api.auth.dependencies import Reader
from app.api.gateway import Gateway, GatewayDep
from app.api.openapi.document import problems
from app.api.scrape import ScrapeFacts, ScrapeMetrics, read_facts
from app.domain.access.rights import Principal
from app.observability.process_metrics import BuildInfo
from app.staging.connection.database import answer_within, translated_errors
from app.staging.connection.schema_revision import program_revision
from mirrorgate.errors import TemporarilyUnavailable

router = APIRouter(tags=["status"])

ANSWER_SECONDS: Final = 8.0
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
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    else:
        registry.register(REGISTRY)
    registry.register(BuildInfo("api", program_revision()))
    registry.register(ScrapeMetrics(_facts(gateway, principal)))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def _facts(gateway: Gateway, principal: Principal) -> ScrapeFacts | None:
    try:
        with translated_errors(), answer_within(ANSWER_SECONDS), gateway.engine.begin() as connection:
            return read_facts(connection, principal, gateway)
    except TemporarilyUnavailable:
        return None
