"""Hold a target for the length of a block, by a file lock or by a lease that a thread renews."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from app.errors import Code, MirrorgateError, Misconfigured, TemporarilyUnavailable
from app.mirror.target_lock.folder_lock import FolderLock
from app.mirror.target_lock.held_target import HeldTarget
from app.mirror.target_lock.lease import LEASE_SECONDS, TargetLease

_RETRY_SECONDS: Final = 0.5
_RETRY_AWAY_SECONDS: Final = 2.0
_JOIN_SECONDS: Final = 2.0
_RENEWALS: Final = 3
"""Renewals per lease, so that two may fail before another mirror can take the target."""


@contextmanager
def exclusive_target(
    location: str, storage_options: Mapping[str, str], *, wait_seconds: float = 0.0
) -> Iterator[HeldTarget]:
    """Hold a target until the block ends; wait up to `wait_seconds` for a mirror that is about to end.

    Raise Misconfigured `mirror_running` with the owner if another mirror holds it, and TemporarilyUnavailable
    `mirror_away` if the store fails. After a crash, a folder is free at once, an object store when the lease ends.
    """
    remote = "://" in location
    with _leased(location, storage_options, wait_seconds) if remote else _locked(location, wait_seconds) as held:
        yield held


@contextmanager
def _locked(location: str, wait_seconds: float) -> Iterator[HeldTarget]:
    lock = FolderLock(Path(location))
    _patiently(lock.acquire, wait_seconds)
    try:
        yield lock
    finally:
        lock.release()


@contextmanager
def _leased(location: str, storage_options: Mapping[str, str], wait_seconds: float) -> Iterator[HeldTarget]:
    lease = TargetLease(location, storage_options)
    _patiently(lease.acquire, wait_seconds)
    over = threading.Event()
    renewed = RenewedLease(lease)
    thread = threading.Thread(target=renewed.keep, args=(over,), name="mirror-lease", daemon=True)
    thread.start()
    try:
        yield renewed
    finally:
        over.set()
        thread.join(_JOIN_SECONDS)
        with suppress(MirrorgateError):  # it ends by itself
            lease.release()


class RenewedLease:
    """A lease that a thread renews. `check` raises while the store fails, and once another mirror has the lease."""

    def __init__(self, lease: TargetLease, *, pause_seconds: float = LEASE_SECONDS / _RENEWALS) -> None:
        self._lease = lease
        self._pause_seconds = pause_seconds
        self._failure: MirrorgateError | None = None

    def check(self) -> None:
        """Raise Misconfigured `mirror_running` once another mirror has the lease.

        Raise TemporarilyUnavailable `mirror_away` if the last renewal failed, also for rejected credentials: they can
        be valid again when they are rotated.
        """
        if self._failure is not None:
            raise self._failure

    def keep(self, over: threading.Event) -> None:
        """Renew until `over` is set or another mirror has the lease. A store that is away is asked again."""
        pause = self._pause_seconds
        while not over.wait(pause):
            try:
                self._lease.acquire()
                self._failure, pause = None, self._pause_seconds
            except MirrorgateError as error:
                self._failure, pause = error, min(self._pause_seconds, _RETRY_AWAY_SECONDS)
                if error.code is Code.MIRROR_RUNNING:
                    return
                self._failure = TemporarilyUnavailable(Code.MIRROR_AWAY, error.detail, remedy=error.remedy)


def _patiently(acquire: Callable[[], None], wait_seconds: float) -> None:
    give_up = time.monotonic() + wait_seconds
    while True:
        try:
            return acquire()
        except Misconfigured as error:
            if error.code is not Code.MIRROR_RUNNING or time.monotonic() >= give_up:
                raise
        threading.Event().wait(_RETRY_SECONDS)
