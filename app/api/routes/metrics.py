"""`GET /metrics`: the process metrics, and those of the tables that the key can see."""

import os

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from app.api.auth.dependencies import Reader
from app.api.gateway import GatewayDep
from app.api.openapi.document import problems
from app.api.table_metrics import TableMetrics
from app.staging.connection.database import translated_errors

router = APIRouter(tags=["status"])


@router.get(
    "/metrics",
    operation_id="get_metrics",
    summary="Get metrics in the Prometheus text format, for the tables that the key can see",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems(401, 403, 503)},
)
def metrics(gateway: GatewayDep, principal: Reader) -> Response:
    """Merge the metrics of all API processes that share this port."""
    registry = CollectorRegistry()
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:  # the switch of prometheus-client, set if processes share a port
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    else:
        registry.register(REGISTRY)
    with translated_errors(), gateway.engine.begin() as connection:
        registry.register(TableMetrics(connection, principal, gateway))
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
