"""Retry requests that the gateway cannot accept yet, or whose answer was lost.

Everything that posts changes shares these rules: `send`, producers and the writers for applications.
"""

from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_before_delay,
    stop_never,
    wait_random_exponential,
)

from mirrorgate.errors import Code, MirrorgateError, TemporarilyUnavailable
from mirrorgate.http import AnswerLost, RejectedByGateway

Pause: TypeAlias = Callable[[float], None]
OnWait: TypeAlias = Callable[[float, MirrorgateError], None]
"""Called before each pause, with its seconds and the error that causes it."""

Answer = TypeVar("Answer")

_TOO_SLOW: Final = 408
_TOO_MUCH: Final = 429
_backoff: Final = wait_random_exponential(multiplier=0.25, max=10)


def is_temporary(error: BaseException) -> bool:
    """Return True after 408, 429, 5xx and no answer: the request was not carried out, or that is unknown."""
    if isinstance(error, RejectedByGateway):
        return error.status in (_TOO_SLOW, _TOO_MUCH) or error.status >= 500
    return isinstance(error, TemporarilyUnavailable)


def call_with_retries(
    call: Callable[[], Answer],
    give_up_after: float | None,
    pause: Pause,
    on_wait: OnWait,
    repeats: Callable[[BaseException], bool] = is_temporary,
) -> Answer:
    """Return the answer of an idempotent call, retried for `give_up_after` seconds; then raise its last error.

    With None it is retried until `pause` raises. `repeats` says which errors are worth another try.
    """
    retrying = Retrying(
        sleep=pause,
        retry=retry_if_exception(repeats),
        wait=_wait,
        stop=stop_never if give_up_after is None else stop_before_delay(give_up_after),
        before_sleep=lambda state: on_wait(state.upcoming_sleep, _error_of(state)),
        reraise=True,
    )
    return retrying(call)


def is_final(error: MirrorgateError) -> bool:
    """Return True if the gateway has rejected the request, and would reject it again."""
    return isinstance(error, RejectedByGateway) and not is_temporary(error)


def may_have_been_accepted(error: MirrorgateError) -> bool:
    """Return True if the request may have been committed although it failed with this error."""
    if isinstance(error, RejectedByGateway):
        return error.code is Code.COMMIT_UNKNOWN or error.status not in (_TOO_SLOW, _TOO_MUCH, 503)
    return isinstance(error, AnswerLost)


def _wait(state: RetryCallState) -> float:
    """Wait at least as long as Retry-After asks, with exponential random backoff so that many senders spread out."""
    return max(float(getattr(_error_of(state), "retry_after", 0)), _backoff(state))


def _error_of(state: RetryCallState) -> MirrorgateError:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, MirrorgateError)
    return error
