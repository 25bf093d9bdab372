"""Shows an error of an action on the page of the action, and records it like an error of the API."""

from dataclasses import dataclass

from fastapi import Request

from app.api.exchange import exchange_of
from app.api.middleware.error_handlers import record_rejection
from app.api.server.problem_responses import STATUS
from app.console.views.notice import NoticeView
from app.errors import MirrorgateError
from app.observability.api_metrics import REJECTED_REQUESTS


@dataclass(frozen=True, slots=True)
class Rejected:
    """What the page shows, and its HTTP status."""

    notice: NoticeView
    status: int


def rejected(request: Request, error: MirrorgateError) -> Rejected:
    """Return an error for its page, after recording it for the log line, the audit and the metrics."""
    record_rejection(exchange_of(request.scope), error)
    REJECTED_REQUESTS.labels(error.code).inc()
    return Rejected(NoticeView("bad", f"{error.code}: {error.detail}", error.remedy), int(STATUS[error.kind]))
