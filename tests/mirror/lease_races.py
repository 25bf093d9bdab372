"""Several mirrors that take one lease at the same moment."""

import threading
from collections.abc import Callable

from app.errors import Code, Misconfigured
from app.mirror.target_lock.lease import TargetLease


def race(lease: Callable[[], TargetLease], mirrors: int) -> list[Code | None]:
    """Let mirrors acquire their leases at once. Return the code of each rejection, None for an acquired lease."""
    outcomes: list[Code | None] = []
    together = threading.Barrier(mirrors)

    def take() -> None:
        taker = lease()
        together.wait()
        try:
            taker.acquire()
            outcomes.append(None)
        except Misconfigured as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=take) for _ in range(mirrors)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes
