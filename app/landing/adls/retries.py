"""Retries of calls to a storage service: growing, random pauses, bounded in total time (decision 0007).

A step is a function that checks the current state before it acts again, because an answer that was lost says nothing
about what was done. It is told whether an earlier attempt may have been carried out.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import structlog
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential

from app.observability.drain_metrics import STORAGE_FAILURES, STORAGE_RETRIES
from mirrorgate.errors import Code, StorageError

log = structlog.get_logger()

Answer = TypeVar("Answer")

_FIRST_PAUSE_SECONDS: Final = 0.2
_MAX_PAUSE_SECONDS: Final = 8.0
_MAX_FEW_RETRIES: Final = 5


_MEANINGS: Final = {
    401: Code.STORAGE_CREDENTIAL,
    403: Code.STORAGE_FORBIDDEN,
    404: Code.STORAGE_NOT_FOUND,
    429: Code.STORAGE_THROTTLED,
}
"""Explanations of an HTTP status for an operator."""


class StorageRejected(StorageError):
    """A clear answer: the call was not carried out, and repeating it changes nothing."""

    def __init__(self, text: str, *, status: int, code: str) -> None:
        """Keep the HTTP status and the service's own error code."""
        super().__init__(text)
        self.status = status
        self.code = code
        self.meaning = _MEANINGS.get(status, Code.STORAGE_FAILED)


class TransientStorageError(StorageError):
    """A call that may work later.

    `unclear`: it may have been carried out, or still be. `retry_after`: the seconds that the service asked for. `few`:
    at most five retries are worthwhile. `status`: the HTTP status, if there was an answer.
    """

    def __init__(
        self,
        text: str,
        *,
        unclear: bool,
        retry_after: float | None = None,
        few: bool = False,
        status: int | None = None,
    ) -> None:
        """Keep what decides about the next attempt."""
        super().__init__(text)
        self.meaning = Code.STORAGE_UNAVAILABLE if status is None else _MEANINGS.get(status, Code.STORAGE_UNAVAILABLE)
        self.unclear = unclear
        self.retry_after = retry_after
        self.few = few


@dataclass(frozen=True, slots=True)
class Retries:
    """Repetition of a step until it gives a clear answer or its seconds are spent. Threads share it."""

    seconds: float
    """Limit of all attempts of a step and the pauses between them."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random

    def run(self, step: Callable[[bool], Answer]) -> Answer:
        """Return the step's answer; call it with whether an earlier attempt may have been carried out.

        Raise what the step raises, and the last TransientStorageError when a further pause would end too late: then it
        is unknown whether the step was carried out.
        """
        attempts = _Attempts(self.clock() + self.seconds, self.clock, self.chance)
        retrying = Retrying(
            retry=retry_if_exception_type(TransientStorageError),
            after=attempts.note,
            wait=attempts.pause,
            stop=attempts.are_over,
            sleep=self.sleep,
            before_sleep=_report_retry,
            retry_error_callback=_give_up,
        )
        return retrying(lambda: step(attempts.unclear))


class _Attempts:
    """The results of the attempts of one step so far."""

    def __init__(self, give_up_at: float, clock: Callable[[], float], chance: Callable[[], float]) -> None:
        self.unclear = False
        self._give_up_at = give_up_at
        self._clock, self._chance = clock, chance
        self._few = 0

    def note(self, state: RetryCallState) -> None:
        error = _error_of(state)
        self.unclear = self.unclear or error.unclear
        self._few += error.few

    def pause(self, state: RetryCallState) -> float:
        """Return at least what the service asked for, else a random part of a growing pause: callers must spread."""
        retry_after = _error_of(state).retry_after
        if retry_after is not None:
            return retry_after + self._chance() * _FIRST_PAUSE_SECONDS
        return self._chance() * wait_exponential(multiplier=_FIRST_PAUSE_SECONDS, max=_MAX_PAUSE_SECONDS)(state)

    def are_over(self, state: RetryCallState) -> bool:
        return self._few > _MAX_FEW_RETRIES or self._clock() + state.upcoming_sleep > self._give_up_at


def _report_retry(state: RetryCallState) -> None:
    STORAGE_RETRIES.inc()
    log.info("storage_retry", detail=str(_error_of(state)), seconds=round(state.upcoming_sleep, 3))


def _give_up(state: RetryCallState) -> None:
    error = _error_of(state)
    STORAGE_FAILURES.inc()
    log.warning("storage_call_failed", detail=str(error))
    raise error


def _error_of(state: RetryCallState) -> TransientStorageError:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, TransientStorageError)
    return error
