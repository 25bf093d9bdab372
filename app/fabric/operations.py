"""Wait for long-running operations of Fabric's API.

An answer 202 names an operation: by `x-ms-operation-id`, and by `Location`, of which only the id is used, because a
token must not go to another address. Source: Microsoft Learn, "Long running operations" (Get Operation State, Get
Operation Result), whose examples name Location without `/v1`.
"""

from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from app.domain.fabric.states import FabricFault
from app.domain.fabric.tables import parse_fault
from app.errors import Code, TemporarilyUnavailable
from app.fabric.items import is_id
from app.fabric.transport import Answer, FabricRejected, Transport

Progress = Callable[[str, int | None], None]
"""Is told the state of an operation or database, and the percentage that is complete, if Fabric says it."""

_POLL_SECONDS: Final = 5.0
_SUCCEEDED: Final = "Succeeded"
_FAILED: Final = "Failed"


def ignore(state: str, percent: int | None) -> None:
    """Report no progress."""


def finished(transport: Transport, answer: Answer, progress: Progress, wait_seconds: float) -> Answer:
    """Return an answer as it is, or for a 202 the result of its operation, empty if it has none.

    Raise FabricRejected for a failed operation, TemporarilyUnavailable for one that takes longer than `wait_seconds`;
    Fabric then continues it.
    """
    if answer.status != 202:
        return answer
    operation = _operation_id(answer)
    if operation is None:
        raise TemporarilyUnavailable(
            Code.FABRIC_UNAVAILABLE, "Fabric accepted the request without naming the operation that carries it out"
        )
    deadline = transport.clock.now() + wait_seconds
    while True:
        transport.clock.sleep(min(answer.retry_after(_POLL_SECONDS), max(0.0, deadline - transport.clock.now())))
        answer = transport.send("GET", f"operations/{operation}")
        state = str(answer.body.get("status") or "")
        percent = answer.body.get("percentComplete")
        progress(state, percent if isinstance(percent, int) else None)
        if state == _SUCCEEDED:
            return _result(transport, operation)
        if state == _FAILED:
            fault = parse_fault(answer.body.get("error")) or FabricFault("OperationFailed", "", "unknown")
            raise FabricRejected(Code.FABRIC_REJECTED, f"operation {operation} failed: {fault}", fault, 200)
        if transport.clock.now() >= deadline:
            raise TemporarilyUnavailable(
                Code.FABRIC_UNAVAILABLE, f"operation {operation} has not ended after {wait_seconds:g} seconds"
            )


def _result(transport: Transport, operation: str) -> Answer:
    """Return the result of an operation; empty for one without a result, which Fabric rejects."""
    try:
        return transport.send("GET", f"operations/{operation}/result")
    except FabricRejected as rejected:
        if rejected.status in (400, 404):
            return Answer(200, {})
        raise


def _operation_id(answer: Answer) -> str | None:
    named = answer.headers.get("x-ms-operation-id", "")
    path = urlsplit(answer.headers.get("Location", "")).path.rstrip("/").split("/")
    return next((text for text in (named, *reversed(path)) if is_id(text)), None)
