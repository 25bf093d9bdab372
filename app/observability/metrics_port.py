"""Serves a process's own metrics on a port, for processes that have no HTTP server."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, start_http_server

import app.observability.common_metrics  # noqa: F401  # turns creation times off
from app.errors import Code, Misconfigured


@dataclass(frozen=True, slots=True)
class MetricsAddress:
    """Where a process serves its metrics; no port: nowhere. Port 0 takes any free one."""

    host: str
    port: int | None


def serve_registry(registry: CollectorRegistry, address: MetricsAddress, *, setting: str, process: str) -> int | None:
    """Serve `/metrics` from a separate thread; return the port, None if none is set.

    `setting` is the variable that has the port, `process` what serves it, for the error: Misconfigured `bad_setting`
    when the port is taken or the host is not an address of this machine.
    """
    if address.port is None:
        return None
    try:
        server, _ = start_http_server(address.port, addr=address.host, registry=registry)
    except OSError as error:
        raise Misconfigured(
            Code.BAD_SETTING,
            f"{setting}: the {process} cannot listen on {address.host}, port {address.port}: {error.strerror}",
            remedy=f"Set a free port, one for each {process} of the machine; 0 takes any. MIRRORGATE_METRICS_HOST must "
            "be an address of this machine, or 0.0.0.0 for all of them.",
        ) from error
    return int(server.server_port)
