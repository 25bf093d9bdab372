"""What the writer of an API process has done lately: the truth about whether the process can accept changes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WriterState:
    """Ages in seconds; None for what has not happened, or is not so now."""

    waiting_requests: int
    oldest_waiting_seconds: float | None
    in_transaction_seconds: float | None
    last_commit_seconds: float | None
    last_answer_seconds: float | None
    """Since Postgres last answered the writer, a commit or a question."""
    last_failure_seconds: float | None
    failure: str | None
    """Why the last transaction failed; None once one has been committed since."""


class WriterRecord:
    """Kept by the writer's thread, read by others: each field is written at once, and read as it is."""

    def __init__(self) -> None:
        self._began_at: float | None = None
        self._committed_at: float | None = None
        self._answered_at: float | None = None
        self._failed_at: float | None = None
        self._failure: str | None = None

    def begin(self, now: float) -> None:
        self._began_at = now

    def end(self) -> None:
        self._began_at = None

    def answered(self, now: float) -> None:
        self._answered_at = now

    def succeeded(self, now: float) -> None:
        self._committed_at, self._answered_at, self._failure = now, now, None

    def failed(self, now: float, detail: str) -> None:
        self._failed_at, self._failure = now, detail

    def state(self, now: float, waiting: int, oldest: float | None) -> WriterState:
        """The state at the monotonic time `now`; `oldest` is when the request that waits longest was submitted."""
        return WriterState(
            waiting,
            _age(now, oldest),
            _age(now, self._began_at),
            _age(now, self._committed_at),
            _age(now, self._answered_at),
            _age(now, self._failed_at),
            self._failure,
        )


def _age(now: float, moment: float | None) -> float | None:
    return None if moment is None else max(0.0, now - moment)
