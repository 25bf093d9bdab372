"""Keep a library from logging what its caller reports itself."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def errors_only(logger_name: str) -> Iterator[None]:
    """Let a library's logger log errors only within the block."""
    logger = logging.getLogger(logger_name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
