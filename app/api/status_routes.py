"""Health, readiness and metrics."""

import os
from collections.abc import Iterable

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from app.api.auth import Reader
from app.api.gateway import GatewayOf
from app.api.models import HealthModel, ReadinessModel
from app.api.openapi import problems
from app.domain.access import Principal
from app.errors import TemporarilyUnavailable
from app.staging.database import Connection, translated_errors
from app.staging.leases import live_workers
from app.staging.table_registry import list_tables
from app.staging.table_status import count_tables

router = APIRouter(tags=["status"])


@router.get("/healthz", operation_id="get_health", summary="Whether this process serves", response_model=HealthModel)
async def healthz() -> HealthModel:
    return HealthModel(status="ok")


@router.get(
    "/readyz",
    operation_id="get_readiness",
    summary="Whether every part of the gateway works, and which does not",
    response_model=ReadinessModel,
    responses={503: {"description": "A part is not ready", "model": ReadinessModel}},
)
def readyz(gateway: GatewayOf, response: Response) -> ReadinessModel:
    parts = {"api": "ok", "database": "ok", "drain": "ok"}
    try:
        with translated_errors(), gateway.engine.begin() as connection:
            if live_workers(connection) == 0:
                parts["drain"] = "no drain has a running lease; start one with `mirrorgate drain`"
    except TemporarilyUnavailable as error:
        parts["database"] = error.detail
        parts["drain"] = "unknown while the database is unavailable"
    ready = all(state == "ok" for state in parts.values())
    response.status_code = 200 if ready else 503
    return ReadinessModel(ready=ready, parts=parts)


@router.get(
    "/metrics",
    operation_id="get_metrics",
    summary="Metrics in Prometheus text format, for the tables that the key may see",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems(401, 403, 503)},
)
def metrics(gateway: GatewayOf, principal: Reader) -> Response:
    registry = CollectorRegistry()
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:  # prometheus-client's own switch, set where processes share a port
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    else:
        registry.register(REGISTRY)
    with translated_errors(), gateway.engine.begin() as connection:
        registry.register(_TableMetrics(connection, principal))
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


class _TableMetrics(Collector):
    """Lag and publication per table, read from the database at each scrape."""

    def __init__(self, connection: Connection, principal: Principal) -> None:
        self._connection = connection
        self._principal = principal

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return []

    def collect(self) -> Iterable[GaugeMetricFamily]:
        tables = [table for table in list_tables(self._connection) if self._principal.may_touch(table.name)]
        counts = count_tables(self._connection, [table.table_id for table in tables])
        families = {
            "pending_batches": GaugeMetricFamily(
                "mirrorgate_lag_batches", "Batches not yet published", labels=["table"]
            ),
            "pending_rows": GaugeMetricFamily("mirrorgate_lag_rows", "Rows not yet published", labels=["table"]),
            "pending_bytes": GaugeMetricFamily("mirrorgate_lag_bytes", "Payload bytes not published", labels=["table"]),
            "oldest_seconds": GaugeMetricFamily(
                "mirrorgate_lag_oldest_seconds", "Age of the oldest unpublished batch", labels=["table"]
            ),
            "published_files": GaugeMetricFamily("mirrorgate_published_files", "Landing files", labels=["table"]),
            "published_rows": GaugeMetricFamily("mirrorgate_published_rows", "Landing rows", labels=["table"]),
            "waiting_letters": GaugeMetricFamily(
                "mirrorgate_waiting_dead_letters",
                "Dead letters that wait to be replayed or discarded",
                labels=["table"],
            ),
        }
        for table in tables:
            for field, family in families.items():
                family.add_metric([str(table.name)], float(getattr(counts[table.table_id], field)))
        return families.values()
