"""Call the gateway without losing or duplicating a change, even while its processes are killed."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar
from uuid import uuid4

from demo.workload import Post
from mirrorgate.errors import MirrorgateError, TemporarilyUnavailable
from mirrorgate.http import GatewayClient, RejectedByGateway

MAX_RETRY_SECONDS = 120.0
PAUSE_SECONDS = 0.25

Answer = TypeVar("Answer")


def with_retries(call: Callable[[], Answer]) -> Answer:
    """Repeat an idempotent call until it succeeds, for up to `MAX_RETRY_SECONDS` while the gateway is unavailable."""
    deadline = time.monotonic() + MAX_RETRY_SECONDS
    while True:
        try:
            return call()
        except MirrorgateError as error:
            if not is_temporary(error) or time.monotonic() > deadline:
                raise
            threading.Event().wait(PAUSE_SECONDS)


def is_temporary(error: MirrorgateError) -> bool:
    """Return whether the same call can succeed later."""
    return isinstance(error, TemporarilyUnavailable) or (isinstance(error, RejectedByGateway) and error.status == 503)


class Poster:
    """Posts each request until it is answered, under an idempotency key, so that a repeat does not land twice."""

    def __init__(self, client: GatewayClient) -> None:
        self._client = client
        self.interruptions = 0

    def post(self, post: Post) -> None:
        """Post a request, and return once it is durable. Raise RejectedByGateway if the gateway rejects it."""
        key = uuid4().hex
        with_retries(lambda: self._post(post, key))

    def _post(self, post: Post, key: str) -> None:
        try:
            self._client.post_changes(post.source_format, post.body, key=key)
        except MirrorgateError as error:
            self.interruptions += is_temporary(error)
            raise
