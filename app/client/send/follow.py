"""Send the files of one producer as they arrive: each once, in order, continuing exactly where an earlier run ended."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.client.file_paths import FileOrder, sort_key
from app.client.send.folder import Listing, PendingFiles, WaitingFile
from app.client.send.journal import Journal
from app.errors import Code, Misconfigured, RejectedInput


@dataclass
class Follower:
    """Sends files of a folder. `send_file` sends one file completely and records that in the journal."""

    folder: Path
    pending: PendingFiles
    journal: Journal
    send_file: Callable[[WaitingFile], None]
    done_folder: Path | None = None
    on_notice: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        """Forget finished files that were moved to the done folder."""
        if self.done_folder is not None:
            for name in list(self.journal.finished):
                if (self.done_folder / name).exists() and not (self.folder / name).exists():
                    self.journal.forget(name)

    def waiting(self, listing: Listing) -> list[WaitingFile]:
        """Return the waiting files, a partly sent one first, whatever arrived since. Sent files are moved away.

        Raises RejectedInput for a file that has changed since it was sent.
        """
        states, finished = listing.states, self.journal.finished
        for name in [name for name in finished if name in states]:
            if (states[name].size, states[name].modified) != (finished[name].size, finished[name].modified):
                raise _changed(name, finished[name].messages)
        if self.done_folder is not None:
            self._move_away(states.keys() & finished.keys())
        waiting = self.pending.waiting(listing, finished)
        return sorted(waiting, key=lambda file: file.name != self.journal.unfinished)

    def send(self, file: WaitingFile) -> None:
        """Send a file, and tell if it is late."""
        if self.pending.order is not FileOrder.MODIFIED and self.journal.finished:
            later = max(self.journal.finished, key=self._sort_key)
            if self._sort_key(later) > self._sort_key(file.name):
                self.on_notice(f"{file.name} is late: {later}, which sorts after it, was already sent")
        self.send_file(file)

    def _sort_key(self, name: str) -> tuple[int, str]:
        return sort_key(self.pending.order, name, 0)

    def _move_away(self, names: set[str]) -> None:
        """Move sent files to the done folder.

        After a crash between the move and the journal entry, the next start adds the entry.
        """
        assert self.done_folder is not None
        for name in sorted(names):
            target = self.done_folder / name
            if target.exists():
                detail = f"{name} was sent and cannot be moved: {target} already exists"
                raise Misconfigured(Code.BAD_SETTING, detail, remedy="Move that file, then run the same command again.")
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                self._move_marker(name)
                (self.folder / name).rename(target)
            except OSError as error:
                detail = f"{name} was sent and cannot be moved to {self.done_folder}: {error.strerror}"
                remedy = "Give a writable folder on the same file system."
                raise Misconfigured(Code.BAD_SETTING, detail, remedy=remedy) from error
            self.journal.forget(name)

    def _move_marker(self, name: str) -> None:
        """Move the marker before the file: a marker left behind would make a later file of this name complete."""
        if self.pending.done_marker is not None and self.done_folder is not None:
            with suppress(FileNotFoundError):
                marker = name + self.pending.done_marker
                (self.folder / marker).rename(self.done_folder / marker)


def _changed(name: str, messages: int) -> RejectedInput:
    detail = f"{name} was sent completely, {messages} messages, and has changed since"
    remedy = (
        "Files are sent once they are complete: give a longer --settle, or a --done-marker. Move this file away; to "
        f"send what was added to it, send it on its own with --from-message {messages}."
    )
    return RejectedInput(Code.BAD_REQUEST, detail, remedy=remedy)
