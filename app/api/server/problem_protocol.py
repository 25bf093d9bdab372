"""HTTP/1.1 as uvicorn speaks it; what is no HTTP at all is rejected like everything else, with problem details.

Such bytes never become a request, so neither the app nor its middleware sees them.
"""

from http import HTTPStatus
from uuid import uuid4

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.api.server.lingering_close import Lingering
from app.api.server.problem_responses import problem_response
from app.errors import MirrorgateError
from app.observability.telemetry import REQUESTS

log = structlog.get_logger()


class ProblemProtocol(HttpToolsProtocol):
    """One connection."""

    lingering: Lingering
    """The connection's transport, for answers after which it is closed."""

    def reject(self, error: MirrorgateError) -> None:
        """Answer what cannot become a request and close: nothing tells where a next one would begin."""
        request_id = uuid4().hex
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            response = problem_response(error)
            status = HTTPStatus(response.status_code)
            REQUESTS.labels("unmatched", int(status)).inc()
            client = self.client[0] if self.client else None
            log.info("request", method=None, route="unmatched", status=int(status), code=str(error.code), client=client)
        extra = [(b"x-request-id", request_id.encode()), (b"connection", b"close")]
        head = [*self.server_state.default_headers, *response.raw_headers, *extra]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in head)
        status_line = f"HTTP/1.1 {int(status)} {status.phrase}\r\n".encode()
        self.lingering.write(status_line + lines + b"\r\n" + bytes(response.body))
        self.lingering.is_peer_sending = True
        self.lingering.close()
