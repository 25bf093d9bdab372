"""HTTP/1.1 as uvicorn speaks it; what is no HTTP at all is refused like everything else, with problem details.

Such bytes never become a request, so neither the app nor its middleware sees them.
"""

from http import HTTPStatus
from uuid import uuid4

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.api.problem_responses import problem_response
from app.errors import Code, MirrorgateError, RejectedInput
from app.telemetry import REQUESTS

log = structlog.get_logger()


class ProblemProtocol(HttpToolsProtocol):
    """One connection."""

    def send_400_response(self, msg: str) -> None:
        self.refuse(RejectedInput(Code.BAD_REQUEST, "the request is not valid HTTP/1.1"))

    def refuse(self, error: MirrorgateError) -> None:
        """Answer what cannot become a request and close: nothing tells where a next one would begin."""
        request_id = uuid4().hex
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            response = problem_response(error)
            status = HTTPStatus(response.status_code)
            REQUESTS.labels("unmatched", int(status)).inc()
            log.info("request", method=None, route="unmatched", status=int(status))
        extra = [(b"x-request-id", request_id.encode()), (b"connection", b"close")]
        head = [*self.server_state.default_headers, *response.raw_headers, *extra]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in head)
        status_line = f"HTTP/1.1 {int(status)} {status.phrase}\r\n".encode()
        self.transport.write(status_line + lines + b"\r\n" + bytes(response.body))
        self.transport.close()
