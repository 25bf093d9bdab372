"""A pool of connections that knows how many threads wait for one, which SQLAlchemy's pool does not tell."""

import threading
from typing import Any, Final

import sqlalchemy as sa

MAX_OVERFLOW: Final = 5
"""Connections that a pool opens beyond its size while all others are in use."""


class WatchedPool(sa.pool.QueuePool):
    """SQLAlchemy's default pool, which also counts the threads that ask for a connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._asking = 0
        self._asking_lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """The number of threads that wait for a connection, for its ping or until it is open."""
        return self._asking

    @property
    def limit(self) -> int:
        """The most connections that the pool opens."""
        return self.size() + MAX_OVERFLOW

    def connect(self) -> sa.PoolProxiedConnection:
        """Return a connection, as QueuePool does."""
        with self._asking_lock:
            self._asking += 1
        try:
            return super().connect()
        finally:
            with self._asking_lock:
                self._asking -= 1


def watched_pool(engine: sa.Engine) -> WatchedPool:
    """Return the pool of an engine of `open_engine`."""
    assert isinstance(engine.pool, WatchedPool)
    return engine.pool
