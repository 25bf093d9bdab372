"""Settings of the C allocator of an API process."""

import ctypes
from contextlib import suppress
from typing import Final

KEPT_BYTES: Final = 32 * 2**20
"""Freed memory at the end of the heap that is not given back to the system, and the size above which memory is."""

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3


def keep_freed_memory() -> None:
    """Let glibc keep memory that was freed, for the next body. Does nothing with another C library.

    By default it gives the pieces of each large body back to the system, and receiving the next body spends a third of
    its time on page faults (decision 0031).
    """
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, KEPT_BYTES)
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
