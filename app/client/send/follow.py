"""Sending the files of a folder as they come: each once, in order, going on exactly after whatever ended it."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.client.send.folder import Folder, Order, WaitingFile
from app.client.send.journal import Journal
from app.client.send.retrying import Pause
from app.errors import Code, Misconfigured, RejectedInput


@dataclass
class Follower:
    """`send_file` sends a file of the folder by name, to its end, and has the journal say so."""

    folder: Folder
    journal: Journal
    send_file: Callable[[WaitingFile], None]
    pause: Pause
    poll_seconds: float
    done_folder: Path | None = None
    on_lag: Callable[[int, int], None] = lambda files, size: None
    """Called with how many files wait, and how many bytes they are."""
    on_notice: Callable[[str], None] = lambda _: None

    def run(self, *, once: bool) -> None:
        """Send what comes, until KeyboardInterrupt; with `once` only what is there until nothing is left."""
        self._forget_moved()
        while True:
            waiting = self._look()
            self.on_lag(len(waiting), sum(file.state.size for file in waiting))
            if waiting and waiting[0].is_complete:
                self._send(waiting[0])
            elif once and not waiting:
                return
            else:
                self.pause(self.poll_seconds)

    def _look(self) -> list[WaitingFile]:
        """The files that wait. An unfinished one comes first, whatever came before it since."""
        states, finished = self.folder.states(), self.journal.finished
        for name in [name for name in finished if name in states]:
            if (states[name].size, states[name].modified) != (finished[name].size, finished[name].modified):
                raise _changed(name, finished[name].messages)
        if self.done_folder is not None:
            self._move_away(states.keys() & finished.keys())
        waiting = self.folder.waiting(states, finished)
        return sorted(waiting, key=lambda file: file.name != self.journal.unfinished)

    def _send(self, file: WaitingFile) -> None:
        if self.folder.order is Order.NAME and (later := max(self.journal.finished, default="")) > file.name:
            self.on_notice(f"{file.name} comes late: {later}, which comes after it by name, has been sent")
        self.send_file(file)

    def _move_away(self, names: set[str]) -> None:
        """Dies between the two steps: `_forget_moved` does the second one at the next start."""
        assert self.done_folder is not None
        for name in sorted(names):
            target = self.done_folder / name
            if target.exists():
                detail = f"{name} has been sent and cannot be moved: {target} is there already"
                raise Misconfigured(Code.BAD_SETTING, detail, remedy="Move that file, then run the same command again.")
            try:
                self._move_marker(name)
                (self.folder.path / name).rename(target)
            except OSError as error:
                detail = f"{name} has been sent and cannot be moved to {self.done_folder}: {error.strerror}"
                remedy = "Name a folder of the same file system that can be written."
                raise Misconfigured(Code.BAD_SETTING, detail, remedy=remedy) from error
            self.journal.forget(name)

    def _move_marker(self, name: str) -> None:
        """First, so that no marker is left behind that would make another file of this name complete."""
        if self.folder.done_marker is not None and self.done_folder is not None:
            with suppress(FileNotFoundError):
                marker = name + self.folder.done_marker
                (self.folder.path / marker).rename(self.done_folder / marker)

    def _forget_moved(self) -> None:
        """Finished files that are in the done folder by now, and no longer here."""
        if self.done_folder is not None:
            for name in list(self.journal.finished):
                if (self.done_folder / name).exists() and not (self.folder.path / name).exists():
                    self.journal.forget(name)


def _changed(name: str, messages: int) -> RejectedInput:
    detail = f"{name} was sent to its end, {messages} messages, and has changed after that"
    remedy = (
        "A file is sent when it is complete: give a longer --settle or a --done-marker. Move the file away; what was "
        f"added to it can be sent by itself, with --from-message {messages}."
    )
    return RejectedInput(Code.BAD_REQUEST, detail, remedy=remedy)
