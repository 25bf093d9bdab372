"""One run of `mirrorgate send`: a client, the sender, and where a producer's numbers stand."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.client.chunking.parts import Limits
from app.client.http import GatewayClient
from app.client.send.files import FileSender
from app.client.send.folder import Folder
from app.client.send.follow import Follower
from app.client.send.journal import Journal
from app.client.send.numbering import Numbering, durable_number
from app.client.send.retrying import patiently
from app.client.send.sender import NotSent, Sender, Sent
from app.client.send.source import Source
from app.client.send.watch import Watch
from app.errors import MirrorgateError


@dataclass
class Run:
    """`sent` and `numbering` tell how far it has come, whatever ends it."""

    source: Source
    limits: Limits
    patience: float
    watch: Watch
    sent: Sent = field(default_factory=Sent)
    numbering: Numbering | None = None

    def send(self, client: GatewayClient, file: Path, skip: int) -> None:
        """Send one file. Raises NotSent."""
        self._files(client).send(file, skip=skip)

    def send_numbered(self, client: GatewayClient, file: Path, skip: int, producer: str, state_folder: Path) -> None:
        """Send one file with the numbers of a producer. Raises NotSent, RejectedInput or Misconfigured."""
        with self._numbered(client, producer, state_folder):
            self.send(client, file, skip)

    def follow(
        self,
        client: GatewayClient,
        folder: Folder,
        producer: str,
        state_folder: Path,
        *,
        once: bool,
        poll_seconds: float,
        done_folder: Path | None,
    ) -> None:
        """Send the files of a folder. Raises NotSent, RejectedInput or Misconfigured."""
        with self._numbered(client, producer, state_folder) as journal:
            files = self._files(client)
            follower = Follower(
                folder,
                journal,
                lambda waiting: files.send_of(folder.path, waiting.name, waiting.state),
                time.sleep,
                poll_seconds,
                done_folder,
                self.watch.lags,
                self.watch.say,
            )
            follower.run(once=once)

    def _files(self, client: GatewayClient) -> FileSender:
        post, numbering = self.source.poster(client), self.numbering

        def settled(body: bytes, headers: Mapping[str, str]) -> Mapping[str, Any]:
            if numbering is None:
                return post(body, headers)
            return numbering.settled(lambda: post(body, headers))

        watch = self.watch
        sender = Sender(
            watch.awaiting(settled), self.source.split, self.patience, time.sleep, watch.accepted, watch.waits
        )
        sender.sent = self.sent
        if numbering is not None:
            sender.names = numbering
        return FileSender(sender, self.limits, watch, numbering)

    @contextmanager
    def _numbered(self, client: GatewayClient, producer: str, state_folder: Path) -> Iterator[Journal]:
        with Journal.opened(state_folder, producer) as journal:
            try:
                durable = patiently(
                    lambda: durable_number(client, producer), self.patience, time.sleep, self.watch.waits
                )
            except MirrorgateError as error:
                raise NotSent(error, error.detail, remedy=error.remedy, errors=[]) from error
            self.numbering = Numbering(journal, producer, durable)
            yield journal
