"""Repeating a request that the gateway cannot take yet."""

from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_before_delay, wait_random_exponential

from app.client.http import AnswerLost, RejectedByGateway
from app.errors import Code, MirrorgateError, TemporarilyUnavailable

Pause: TypeAlias = Callable[[float], None]
Answer = TypeVar("Answer")

_PASSING: Final = frozenset({408, 429, 502, 503, 504})
_backoff: Final = wait_random_exponential(multiplier=0.25, max=10)


def patiently(
    call: Callable[[], Answer], patience: float, pause: Pause, on_wait: Callable[[MirrorgateError], None]
) -> Answer:
    """The answer to a call that may be repeated, given up after `patience` seconds with the last error."""
    retrying = Retrying(
        retry=retry_if_exception(_may_be_repeated),
        wait=_wait,
        stop=stop_before_delay(patience),
        sleep=pause,
        before_sleep=lambda state: on_wait(_error_of(state)),
        reraise=True,
    )
    return retrying(call)


def is_final(error: MirrorgateError) -> bool:
    """Whether the gateway has looked at the request and will not have it."""
    return isinstance(error, RejectedByGateway) and error.status < 500 and error.status not in _PASSING


def may_have_been_accepted(error: MirrorgateError) -> bool:
    """Whether the request may have been carried out although this came back."""
    if isinstance(error, RejectedByGateway):
        return error.code is Code.COMMIT_UNKNOWN or error.status not in (408, 429, 503)
    return isinstance(error, AnswerLost)


def _may_be_repeated(error: BaseException) -> bool:
    if isinstance(error, RejectedByGateway):
        return error.status in _PASSING
    return isinstance(error, TemporarilyUnavailable)


def _wait(state: RetryCallState) -> float:
    """What the gateway asks for, or longer: a random, growing time, so that many senders do not come back at once."""
    return max(float(getattr(_error_of(state), "retry_after", 0)), _backoff(state))


def _error_of(state: RetryCallState) -> MirrorgateError:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, MirrorgateError)
    return error
