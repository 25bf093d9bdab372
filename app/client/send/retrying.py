"""Retry requests that the gateway cannot accept yet."""

from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_before_delay, wait_random_exponential

from app.client.http import AnswerLost, RejectedByGateway
from app.errors import Code, MirrorgateError, TemporarilyUnavailable

Pause: TypeAlias = Callable[[float], None]
Answer = TypeVar("Answer")

_TEMPORARY: Final = frozenset({408, 429, 502, 503, 504})
_backoff: Final = wait_random_exponential(multiplier=0.25, max=10)


def call_with_retries(
    call: Callable[[], Answer], give_up_after: float, pause: Pause, on_retry: Callable[[MirrorgateError], None]
) -> Answer:
    """Return the answer of an idempotent call, retried for `give_up_after` seconds; then raise its last error.

    `on_retry` is called with the error before each pause.
    """
    retrying = Retrying(
        retry=retry_if_exception(_is_temporary),
        wait=_wait,
        stop=stop_before_delay(give_up_after),
        sleep=pause,
        before_sleep=lambda state: on_retry(_error_of(state)),
        reraise=True,
    )
    return retrying(call)


def is_final(error: MirrorgateError) -> bool:
    """Return True if the gateway has rejected the request, and would reject it again."""
    return isinstance(error, RejectedByGateway) and error.status < 500 and error.status not in _TEMPORARY


def may_have_been_accepted(error: MirrorgateError) -> bool:
    """Return True if the request may have been committed although it failed with this error."""
    if isinstance(error, RejectedByGateway):
        return error.code is Code.COMMIT_UNKNOWN or error.status not in (408, 429, 503)
    return isinstance(error, AnswerLost)


def _is_temporary(error: BaseException) -> bool:
    if isinstance(error, RejectedByGateway):
        return error.status in _TEMPORARY
    return isinstance(error, TemporarilyUnavailable)


def _wait(state: RetryCallState) -> float:
    """Wait at least as long as Retry-After asks, with exponential random backoff so that many senders spread out."""
    return max(float(getattr(_error_of(state), "retry_after", 0)), _backoff(state))


def _error_of(state: RetryCallState) -> MirrorgateError:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, MirrorgateError)
    return error
