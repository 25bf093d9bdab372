"""Follow a folder whose paths may name tables: files of one table in order, tables independent of each other.

Invariant: no file of a table is sent after one that was rejected or is incomplete. Other tables continue.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from app.client.file_paths import PathTemplate, TablePath, first_match
from app.client.retrying import Pause
from app.client.send.folder import FileState, Listing, WaitingFile, WatchedFolder
from app.client.send.follow import Follower
from app.client.send.sender import SendFailed
from app.errors import MirrorgateError, RejectedInput


@dataclass(frozen=True, slots=True)
class Stop:
    """A table whose next file was rejected. It is tried again as soon as that file changes or is gone."""

    table: str
    states: dict[str, FileState]
    """The files of the table when it stopped."""
    error: MirrorgateError


@dataclass
class TableFollowers:
    """Follows a folder. Without templates it has one follower, and a rejection ends the run."""

    folder: WatchedFolder
    templates: Collection[PathTemplate]
    open_follower: Callable[[TablePath], Follower]
    """Called once for each table and its parameters."""
    pause: Pause
    poll_seconds: float
    on_lag: Callable[[int, int], None] = lambda files, size: None
    """Called with the number of waiting files and their total size in bytes."""
    on_notice: Callable[[str], None] = lambda _: None
    stops: dict[str, Stop] = field(default_factory=dict)
    """The stopped tables."""
    _followers: dict[str, Follower] = field(default_factory=dict)
    _unmatched: set[str] = field(default_factory=set)

    def run(self, *, once: bool) -> None:
        """Send files as they arrive until KeyboardInterrupt; with `once`, return when no file is left.

        Raises the rejection of a file, with templates when every other table has nothing left to send.
        """
        while True:
            waiting = {name: self._waiting(name, files) for name, files in self._by_table(self.folder.list()).items()}
            files = [file for of_table in waiting.values() for file in of_table]
            self.on_lag(len(files), sum(file.state.size for file in files))
            ready = {name: of_table[0] for name, of_table in waiting.items() if of_table and of_table[0].is_complete}
            for name, file in ready.items():
                self._guarded(name, {file.name: file.state}, lambda: self._followers[name].send(file))  # noqa: B023  # called at once
            if not ready and once and not files:
                break
            if not ready:
                self.pause(self.poll_seconds)
        if self.stops:
            raise self._stopped()

    def _by_table(self, listing: Listing) -> dict[str, Listing]:
        """Split a listing by table, and open the followers of new tables."""
        groups: dict[str, Listing] = {}
        for path, state in listing.states.items():
            found = first_match(self.templates, path) if self.templates else TablePath(None)
            if found is None:
                if path not in self._unmatched:
                    self._unmatched.add(path)
                    self.on_notice(f"{path} is left out: it matches no --table-from-path")
                continue
            name = " ".join([found.table or "", *found.parameters.values()])
            if name not in self._followers:
                self._followers[name] = self.open_follower(found)
            groups.setdefault(name, Listing({}, listing.names)).states[path] = state
        for name in self._followers:
            groups.setdefault(name, Listing({}, listing.names))
        return groups

    def _waiting(self, name: str, listing: Listing) -> list[WaitingFile]:
        stop = self.stops.get(name)
        if stop is not None and all(listing.states.get(path) == state for path, state in stop.states.items()):
            return []
        if stop is not None:
            del self.stops[name]
            self.on_notice(f"{name}: its rejected file has changed or is gone; trying again")
        files: list[WaitingFile] = []
        self._guarded(name, listing.states, lambda: files.extend(self._followers[name].waiting(listing)))
        return files

    def _guarded(self, name: str, states: dict[str, FileState], act: Callable[[], None]) -> None:
        try:
            act()
        except (RejectedInput, SendFailed) as error:
            if not self.templates or (isinstance(error, SendFailed) and error.gave_up):
                raise
            self.stops[name] = Stop(name, states, error)
            self.on_notice(f"{name} stopped, the other tables continue: {error.code}: {error.detail}. {error.remedy}")

    def _stopped(self) -> MirrorgateError:
        if len(self.stops) == 1:
            return next(iter(self.stops.values())).error
        first = next(iter(self.stops.values())).error
        detail = f"{len(self.stops)} tables stopped: " + "; ".join(
            f"{stop.table} ({stop.error.code}: {stop.error.detail})" for stop in self.stops.values()
        )
        errors = [error for stop in self.stops.values() for error in getattr(stop.error, "errors", [])]
        return SendFailed(first, detail, remedy="Correct their files, then run the same command again.", errors=errors)
