"""Memory of a process that receives many large bodies: settings of the C allocator and of the garbage collector."""

import ctypes
import gc
from contextlib import suppress
from typing import Final

KEPT_BYTES: Final = 32 * 2**20
"""Freed memory at the end of the heap that is not given back to the system, and the size above which memory is."""

YOUNG_OBJECTS: Final = 10_000
"""New objects until the next collection. With Python's 700, each body of 1,000 changes causes several, which find
nothing and take a tenth of its reading."""

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


def collect_seldom() -> None:
    """Freeze the objects that exist now out of the garbage collector, and collect less often. Call it once started.

    A full collection over the objects of the start takes about 100 ms (performance notebook).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
