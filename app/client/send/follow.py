"""Send the files of a folder as they arrive: each once, in order, continuing exactly where an earlier run ended."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.client.send.folder import FileOrder, WaitingFile, WatchedFolder
from app.client.send.journal import Journal
from app.client.send.retrying import Pause
from app.errors import Code, Misconfigured, RejectedInput


@dataclass
class Follower:
    """Follows a folder. `send_file` sends one file completely and records that in the journal."""

    folder: WatchedFolder
    journal: Journal
    send_file: Callable[[WaitingFile], None]
    pause: Pause
    poll_seconds: float
    done_folder: Path | None = None
    on_lag: Callable[[int, int], None] = lambda files, size: None
    """Called with the number of waiting files and their total size in bytes."""
    on_notice: Callable[[str], None] = lambda _: None

    def run(self, *, once: bool) -> None:
        """Send files as they arrive until KeyboardInterrupt; with `once`, return when no file is left."""
        self._forget_moved()
        while True:
            waiting = self._list_waiting()
            self.on_lag(len(waiting), sum(file.state.size for file in waiting))
            if waiting and waiting[0].is_complete:
                self._send(waiting[0])
            elif once and not waiting:
                return
            else:
                self.pause(self.poll_seconds)

    def _list_waiting(self) -> list[WaitingFile]:
        """Return the waiting files, a partly sent one first, whatever arrived since."""
        states, finished = self.folder.states(), self.journal.finished
        for name in [name for name in finished if name in states]:
            if (states[name].size, states[name].modified) != (finished[name].size, finished[name].modified):
                raise _changed(name, finished[name].messages)
        if self.done_folder is not None:
            self._move_away(states.keys() & finished.keys())
        waiting = self.folder.waiting(states, finished)
        return sorted(waiting, key=lambda file: file.name != self.journal.unfinished)

    def _send(self, file: WaitingFile) -> None:
        if self.folder.order is FileOrder.NAME and (later := max(self.journal.finished, default="")) > file.name:
            self.on_notice(f"{file.name} is late: {later}, which sorts after it, was already sent")
        self.send_file(file)

    def _move_away(self, names: set[str]) -> None:
        """Move sent files to the done folder.

        After a crash between the move and the journal entry, `_forget_moved` adds the entry at the next start.
        """
        assert self.done_folder is not None
        for name in sorted(names):
            target = self.done_folder / name
            if target.exists():
                detail = f"{name} was sent and cannot be moved: {target} already exists"
                raise Misconfigured(Code.BAD_SETTING, detail, remedy="Move that file, then run the same command again.")
            try:
                self._move_marker(name)
                (self.folder.path / name).rename(target)
            except OSError as error:
                detail = f"{name} was sent and cannot be moved to {self.done_folder}: {error.strerror}"
                remedy = "Give a writable folder on the same file system."
                raise Misconfigured(Code.BAD_SETTING, detail, remedy=remedy) from error
            self.journal.forget(name)

    def _move_marker(self, name: str) -> None:
        """Move the marker before the file: a marker left behind would make a later file of this name complete."""
        if self.folder.done_marker is not None and self.done_folder is not None:
            with suppress(FileNotFoundError):
                marker = name + self.folder.done_marker
                (self.folder.path / marker).rename(self.done_folder / marker)

    def _forget_moved(self) -> None:
        """Forget finished files that were moved to the done folder."""
        if self.done_folder is not None:
            for name in list(self.journal.finished):
                if (self.done_folder / name).exists() and not (self.folder.path / name).exists():
                    self.journal.forget(name)


def _changed(name: str, messages: int) -> RejectedInput:
    detail = f"{name} was sent completely, {messages} messages, and has changed since"
    remedy = (
        "Files are sent once they are complete: give a longer --settle, or a --done-marker. Move this file away; to "
        f"send what was added to it, send it on its own with --from-message {messages}."
    )
    return RejectedInput(Code.BAD_REQUEST, detail, remedy=remedy)
