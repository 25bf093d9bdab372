"""Posting without losing or doubling anything, also while processes of the gateway are killed."""

import threading
import time
from collections import Counter

from app.client import GatewayClient, RefusedByGateway
from app.errors import MirrorgateError, TemporarilyUnavailable
from demo.workload import Post

GIVE_UP_SECONDS = 120.0
PAUSE_SECONDS = 0.25


class Poster:
    """The only producer of its tables: a lost answer is settled by the table's last sequence."""

    def __init__(self, client: GatewayClient) -> None:
        self._client = client
        self._accepted: Counter[str] = Counter()
        self.interruptions = 0

    def post(self, post: Post) -> None:
        """Return once the request is durable. Raises RefusedByGateway when the gateway will not have it."""
        give_up = time.monotonic() + GIVE_UP_SECONDS
        while True:
            try:
                self._client.post_changes(post.source_format, post.body)
                break
            except MirrorgateError as error:
                if not passing(error) or time.monotonic() > give_up:
                    raise
                self.interruptions += 1
                if self._was_accepted(post, give_up):
                    break
        self._accepted[post.table] += 1

    def _was_accepted(self, post: Post, give_up: float) -> bool:
        while True:
            try:
                last_sequence = int(self._client.get(f"/v1/tables/{post.table}")["last_sequence"])
                return last_sequence > self._accepted[post.table]
            except MirrorgateError as error:
                if not passing(error) or time.monotonic() > give_up:
                    raise
                threading.Event().wait(PAUSE_SECONDS)


def passing(error: MirrorgateError) -> bool:
    """Whether the same call can succeed later."""
    return isinstance(error, TemporarilyUnavailable) or (isinstance(error, RefusedByGateway) and error.status == 503)
