"""HTTP/1.1 as uvicorn speaks it; what is no HTTP at all is refused like everything else, with problem details.

Such bytes never become a request, so neither the app nor its middleware sees them.
"""

from typing import Final
from uuid import uuid4

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.api.problem_responses import problem_response
from app.errors import Code, RejectedInput
from app.telemetry import REQUESTS

log = structlog.get_logger()

_BAD_REQUEST: Final = b"HTTP/1.1 400 Bad Request\r\n"


class GatewayProtocol(HttpToolsProtocol):
    """One connection. After what cannot be read it is closed: nothing tells where a next request would begin."""

    def send_400_response(self, msg: str) -> None:
        request_id = uuid4().hex
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            response = problem_response(RejectedInput(Code.BAD_REQUEST, "the request is not valid HTTP/1.1"))
            REQUESTS.labels("unmatched", response.status_code).inc()
            log.info("request", method=None, route="unmatched", status=response.status_code)
        extra = [(b"x-request-id", request_id.encode()), (b"connection", b"close")]
        head = [*self.server_state.default_headers, *response.raw_headers, *extra]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in head)
        self.transport.write(_BAD_REQUEST + lines + b"\r\n" + bytes(response.body))
        self.transport.close()
