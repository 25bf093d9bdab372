"""One run of `mirrorgate send`: the client, the sender and the producer's numbers, put together."""

import re
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from app.client.chunking.chunks import Limits
from app.client.file_paths import FileOrder, PathTemplate, TablePath
from app.client.http import GatewayClient, RejectedByGateway
from app.client.loads import Mode
from app.client.producer import Patience, durable_number
from app.client.retrying import call_with_retries
from app.client.send.files import FileSender
from app.client.send.folder import PendingFiles, WatchedFolder
from app.client.send.follow import Follower
from app.client.send.follow_tables import TableFollowers
from app.client.send.journal import Journal
from app.client.send.load_run import LoadRun
from app.client.send.numbering import Numbering
from app.client.send.progress import Progress
from app.client.send.progress_display import ProgressDisplay
from app.client.send.sender import Sender, SendFailed
from app.client.send.source import Source
from app.errors import MirrorgateError, TemporarilyUnavailable

_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Following:
    """How to follow a folder. With `templates`, each table has a producer whose name ends with the table."""

    folder: WatchedFolder
    settle_seconds: float
    order: FileOrder
    poll_seconds: float
    templates: Collection[PathTemplate] = ()
    done_folder: Path | None = None


@dataclass
class SendJob:
    """Sends one file, or the files of a folder. `progress` and `numberings` stay readable however the run ends."""

    source: Source
    limits: Limits
    give_up_after: float
    """Seconds to retry a request that the gateway cannot accept yet."""
    display: ProgressDisplay
    progress: Progress = field(default_factory=Progress)
    numberings: list[Numbering] = field(default_factory=list)
    loaded: LoadRun | None = None
    """The load session of the run."""

    def send(self, client: GatewayClient, file: Path, skip: int) -> None:
        """Send one file, without its first `skip` messages. Raises SendFailed."""
        self._file_sender(client, self.source, None).send(file, skip=skip)

    def send_numbered(self, client: GatewayClient, file: Path, skip: int, producer: str, state_folder: Path) -> None:
        """Send one file with the numbers of a producer. Raises SendFailed, RejectedInput or Misconfigured."""
        with ExitStack() as journals:
            journal = journals.enter_context(Journal.opened(state_folder, producer))
            numbering = self._numbering(client, producer, journal)
            self._file_sender(client, self.source, numbering).send(file, skip=skip)

    def load(self, client: GatewayClient, file: Path, mode: Mode, state_folder: Path) -> None:
        """Send one file as a load session of the source's table, and complete it.

        Raises SendFailed, RejectedInput or Misconfigured.
        """
        assert self.source.table is not None
        patience = Patience(self.give_up_after, on_wait=self.display.show_retry)
        files = self._file_sender(client, self.source, None)
        try:
            with LoadRun.opened(state_folder, client, self.source.table, mode, patience) as run:
                self.loaded = run
                files.sender.names = run
                files.load(file, run)
        except SendFailed:
            raise
        except (RejectedByGateway, TemporarilyUnavailable) as error:
            raise SendFailed(error, error.detail, remedy=error.remedy, errors=[]) from error

    def follow(
        self, client: GatewayClient, following: Following, producer: str, state_folder: Path, *, once: bool
    ) -> None:
        """Send the files of a folder. Raises SendFailed, RejectedInput or Misconfigured."""
        folder = following.folder.path

        def open_follower(path: TablePath) -> Follower:
            name = producer if path.table is None else producer_of_table(producer, path)
            journal = journals.enter_context(Journal.opened(state_folder, name))
            table = self.source.table if path.table is None else path.table
            source = replace(self.source, table=table, parameters={**self.source.parameters, **path.parameters})
            files = self._file_sender(client, source, self._numbering(client, name, journal))
            return Follower(
                folder,
                PendingFiles(following.settle_seconds, following.order, following.folder.names.done_marker),
                journal,
                lambda waiting: files.send_from_folder(folder, waiting.name, waiting.state),
                following.done_folder,
                self.display.print,
            )

        with ExitStack() as journals:
            TableFollowers(
                following.folder,
                following.templates,
                open_follower,
                time.sleep,
                following.poll_seconds,
                self.display.show_backlog,
                self.display.print,
            ).run(once=once)

    def _file_sender(self, client: GatewayClient, source: Source, numbering: Numbering | None) -> FileSender:
        post, display = source.poster(client), self.display

        def post_numbered(body: bytes, headers: Mapping[str, str]) -> Mapping[str, Any]:
            if numbering is None:
                return post(body, headers)
            return numbering.accept_expired_receipt(lambda: post(body, headers))

        sender = Sender(
            display.deferring_interrupts(post_numbered),
            source.split,
            self.give_up_after,
            time.sleep,
            display.show_accepted,
            display.show_retry,
        )
        sender.progress = self.progress
        if numbering is not None:
            sender.names = numbering
        return FileSender(sender, self.limits, display, numbering)

    def _numbering(self, client: GatewayClient, producer: str, journal: Journal) -> Numbering:
        try:
            durable = call_with_retries(
                lambda: durable_number(client, producer), self.give_up_after, time.sleep, self.display.show_retry
            )
        except MirrorgateError as error:
            raise SendFailed(error, error.detail, remedy=error.remedy, errors=[]) from error
        self.numberings.append(Numbering(journal, producer, durable))
        return self.numberings[-1]


def producer_of_table(producer: str, path: TablePath) -> str:
    """Return the producer of a table: `crm@sales.orders`. No name that --producer accepts has an `@`.

    A table with other characters is shortened and gets a hash of its name.
    """
    text = ".".join([path.table or "", *path.parameters.values()])
    if not _PLAIN.fullmatch(text):
        text = re.sub(r"[^A-Za-z0-9._-]", "_", text)[:80] + "-" + sha256(text.encode()).hexdigest()[:12]
    return f"{producer}@{text}"
