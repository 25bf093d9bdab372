"""One run of `mirrorgate send`: the client, the sender and the producer's numbers, put together."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.client.chunking.chunks import Limits
from app.client.http import GatewayClient
from app.client.send.files import FileSender
from app.client.send.folder import WatchedFolder
from app.client.send.follow import Follower
from app.client.send.journal import Journal
from app.client.send.numbering import Numbering, durable_number
from app.client.send.progress import Progress
from app.client.send.progress_display import ProgressDisplay
from app.client.send.retrying import call_with_retries
from app.client.send.sender import Sender, SendFailed
from app.client.send.source import Source
from app.errors import MirrorgateError


@dataclass
class SendJob:
    """Sends one file, or the files of a folder. `progress` and `numbering` stay readable however the run ends."""

    source: Source
    limits: Limits
    give_up_after: float
    """Seconds to retry a request that the gateway cannot accept yet."""
    display: ProgressDisplay
    progress: Progress = field(default_factory=Progress)
    numbering: Numbering | None = None

    def send(self, client: GatewayClient, file: Path, skip: int) -> None:
        """Send one file, without its first `skip` messages. Raises SendFailed."""
        self._file_sender(client).send(file, skip=skip)

    def send_numbered(self, client: GatewayClient, file: Path, skip: int, producer: str, state_folder: Path) -> None:
        """Send one file with the numbers of a producer. Raises SendFailed, RejectedInput or Misconfigured."""
        with self._numbered(client, producer, state_folder):
            self.send(client, file, skip)

    def follow(
        self,
        client: GatewayClient,
        folder: WatchedFolder,
        producer: str,
        state_folder: Path,
        *,
        once: bool,
        poll_seconds: float,
        done_folder: Path | None,
    ) -> None:
        """Send the files of a folder. Raises SendFailed, RejectedInput or Misconfigured."""
        with self._numbered(client, producer, state_folder) as journal:
            files = self._file_sender(client)
            follower = Follower(
                folder,
                journal,
                lambda waiting: files.send_from_folder(folder.path, waiting.name, waiting.state),
                time.sleep,
                poll_seconds,
                done_folder,
                self.display.show_backlog,
                self.display.print,
            )
            follower.run(once=once)

    def _file_sender(self, client: GatewayClient) -> FileSender:
        post, numbering, display = self.source.poster(client), self.numbering, self.display

        def post_numbered(body: bytes, headers: Mapping[str, str]) -> Mapping[str, Any]:
            if numbering is None:
                return post(body, headers)
            return numbering.accept_expired_receipt(lambda: post(body, headers))

        sender = Sender(
            display.deferring_interrupts(post_numbered),
            self.source.split,
            self.give_up_after,
            time.sleep,
            display.show_accepted,
            display.show_retry,
        )
        sender.progress = self.progress
        if numbering is not None:
            sender.names = numbering
        return FileSender(sender, self.limits, display, numbering)

    @contextmanager
    def _numbered(self, client: GatewayClient, producer: str, state_folder: Path) -> Iterator[Journal]:
        with Journal.opened(state_folder, producer) as journal:
            try:
                durable = call_with_retries(
                    lambda: durable_number(client, producer), self.give_up_after, time.sleep, self.display.show_retry
                )
            except MirrorgateError as error:
                raise SendFailed(error, error.detail, remedy=error.remedy, errors=[]) from error
            self.numbering = Numbering(journal, producer, durable)
            yield journal
