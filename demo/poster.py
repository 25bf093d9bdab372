"""Calling the gateway without losing or doubling anything, also while its processes are killed."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from app.client import GatewayClient, RefusedByGateway
from app.errors import Code, MirrorgateError, TemporarilyUnavailable
from demo.workload import Post

GIVE_UP_SECONDS = 120.0
PAUSE_SECONDS = 0.25

Answer = TypeVar("Answer")


def persistently(call: Callable[[], Answer]) -> Answer:
    """The answer of a call that may be repeated, however often the gateway is away meanwhile."""
    give_up = time.monotonic() + GIVE_UP_SECONDS
    while True:
        try:
            return call()
        except MirrorgateError as error:
            if not is_passing(error) or time.monotonic() > give_up:
                raise
            threading.Event().wait(PAUSE_SECONDS)


def is_passing(error: MirrorgateError) -> bool:
    """Whether the same call can succeed later."""
    return isinstance(error, TemporarilyUnavailable) or (isinstance(error, RefusedByGateway) and error.status == 503)


class Poster:
    """The only producer of its tables: whether a request without an answer is durable, the last sequence tells."""

    def __init__(self, client: GatewayClient) -> None:
        self._client = client
        self._accepted: Counter[str] = Counter()
        self.interruptions = 0

    def post(self, post: Post) -> None:
        """Return once the request is durable. Raises RefusedByGateway when the gateway will not have it."""
        persistently(lambda: self._post_unless_accepted(post))
        self._accepted[post.table] += 1

    def _post_unless_accepted(self, post: Post) -> None:
        try:
            self._client.post_changes(post.source_format, post.body)
        except MirrorgateError as error:
            if not is_passing(error):
                raise
            self.interruptions += 1
            if not persistently(lambda: self._is_accepted(post.table)):
                raise

    def _is_accepted(self, table: str) -> bool:
        try:
            return int(self._client.get(f"/v1/tables/{table}")["last_sequence"]) > self._accepted[table]
        except RefusedByGateway as error:
            if error.code is Code.UNKNOWN_TABLE:
                return False
            raise
