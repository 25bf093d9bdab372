"""When a call to a storage service is repeated, how long after, and for how long in all."""

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

import structlog

from app.landing.zone import StorageError
from app.observability.drain_metrics import STORAGE_FAILURES, STORAGE_RETRIES

log = structlog.get_logger()

Answer = TypeVar("Answer")

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 8.0
_FEW: Final = 5


class StorageRejected(StorageError):
    """A clear answer: it was not done, and asking again changes nothing."""

    def __init__(self, text: str, *, status: int, code: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


class TransientStorageError(StorageError):
    """It may work later. `unclear`: it may also have been done already, or may still be done. `few`: more than a
    few tries are not worth while.
    """

    def __init__(self, text: str, *, unclear: bool, retry_after: float | None = None, few: bool = False) -> None:
        super().__init__(text)
        self.unclear = unclear
        self.retry_after = retry_after
        self.few = few


class Retries:
    """Repeats a step until it gives a clear answer or its seconds are spent; the pauses grow, and are random."""

    def __init__(
        self,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._seconds = seconds
        self._clock, self._sleep, self._chance = clock, sleep, chance

    def run(self, step: Callable[[bool], Answer]) -> Answer:
        """The step's answer; it is told whether an earlier try may have been done.

        Raises what the step raises, and the last TransientStorageError when a further pause would end too late:
        whether the step was done is then not known.
        """
        give_up = self._clock() + self._seconds
        pause, unclear, few_left = _FIRST_PAUSE, False, _FEW
        while True:
            try:
                return step(unclear)
            except TransientStorageError as error:
                unclear = unclear or error.unclear
                wait = self._wait(error, pause)
                few_left -= error.few
                if few_left < 0 or self._clock() + wait > give_up:
                    STORAGE_FAILURES.inc()
                    log.warning("storage_call_failed", detail=str(error))
                    raise
                STORAGE_RETRIES.inc()
                log.info("storage_retry", detail=str(error), seconds=round(wait, 3))
                self._sleep(wait)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _wait(self, error: TransientStorageError, pause: float) -> float:
        """At least what the service asked for, else a random part of the pause: many callers must not meet again."""
        if error.retry_after is not None:
            return error.retry_after + self._chance() * _FIRST_PAUSE
        return self._chance() * pause
