"""Serves a process's own metrics on a loopback port, for processes that have no HTTP server."""

from prometheus_client import CollectorRegistry, start_http_server

from app.errors import Code, Misconfigured


def serve_registry(registry: CollectorRegistry, port: int | None, *, setting: str, process: str) -> int | None:
    """Serve `/metrics` on the loopback address from a separate thread; return the port, None if none is set.

    `setting` is the variable that has the port, `process` what serves it, for the error: Misconfigured `bad_setting`
    when the port is taken.
    """
    if port is None:
        return None
    try:
        server, _ = start_http_server(port, addr="127.0.0.1", registry=registry)
    except OSError as error:
        raise Misconfigured(
            Code.BAD_SETTING,
            f"{setting}: the {process} cannot listen on port {port}: {error.strerror}",
            remedy=f"Set a free port, one for each {process} of the machine; 0 takes any.",
        ) from error
    return int(server.server_port)
