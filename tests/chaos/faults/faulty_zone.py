"""A landing zone that fails: each call is executed or not, and then answered, rejected, or the last of its process."""

import errno
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from typing import BinaryIO, TypeVar

from app.landing.zone import Entry, LandingZone, PathKind, RenameOutcome

Answer = TypeVar("Answer")


class Trouble(StrEnum):
    """What happens beside, or instead of, what was asked for."""

    FAILS_BEFORE = "not done, error"
    FAILS_AFTER = "done, error"
    DIES_BEFORE = "not done, dies"
    DIES_AFTER = "done, dies"


class Troubles:
    """Draws faults for calls; `note` receives each one, and `die` must not return."""

    def __init__(
        self,
        source: random.Random,
        *,
        errors: float,
        deaths: float,
        note: Callable[[str], None],
        die: Callable[[], None],
    ) -> None:
        self._source, self._errors, self._deaths = source, errors, deaths
        self._note, self._die = note, die

    def draw(self, call: str) -> Trouble | None:
        chance = self._source.random()
        if chance >= self._errors + self._deaths:
            return None
        kinds = (Trouble.FAILS_BEFORE, Trouble.FAILS_AFTER, Trouble.DIES_BEFORE, Trouble.DIES_AFTER)
        trouble = kinds[2 * (chance < self._deaths) + self._source.randrange(2)]
        self._note(f"{call}: {trouble}")
        return trouble

    def strike(self, trouble: Trouble | None, *moments: Trouble) -> None:
        """Let the trouble happen if it is one of this moment."""
        if trouble in moments:
            if trouble in (Trouble.DIES_BEFORE, Trouble.DIES_AFTER):
                self._die()
            raise OSError(errno.EIO, "planned trouble")


class FaultyZone:
    """Another zone, with trouble."""

    def __init__(self, zone: LandingZone, troubles: Troubles) -> None:
        self._zone, self._troubles = zone, troubles

    def kind(self, path: str) -> PathKind:
        return self._call("look", lambda: self._zone.kind(path))

    def names(self, folder: str) -> list[str]:
        return self._call("list", lambda: self._zone.names(folder))

    def kinds(self, folder: str) -> dict[str, PathKind]:
        return self._call("list", lambda: self._zone.kinds(folder))

    def entries(self, folder: str) -> dict[str, Entry]:
        return self._call("list", lambda: self._zone.entries(folder))

    def create_folder(self, path: str) -> None:
        self._call("create folder", lambda: self._zone.create_folder(path))

    def create_file(self, path: str, content: bytes) -> None:
        self._call("create file", lambda: self._zone.create_file(path, content))

    @contextmanager
    def write_file(self, path: str) -> Iterator[BinaryIO]:
        """Trouble before is met half-way: some bytes are written."""
        trouble = self._troubles.draw("write")
        with self._zone.write_file(path) as file:
            yield file
            self._troubles.strike(trouble, Trouble.FAILS_BEFORE, Trouble.DIES_BEFORE)
        self._troubles.strike(trouble, Trouble.FAILS_AFTER, Trouble.DIES_AFTER)

    def read_file(self, path: str) -> AbstractContextManager[BinaryIO]:
        return self._call("read", lambda: self._zone.read_file(path))

    def rename(self, source: str, destination: str) -> RenameOutcome:
        return self._call("rename", lambda: self._zone.rename(source, destination))

    def make_durable(self, path: str) -> None:
        self._call("make durable", lambda: self._zone.make_durable(path))

    def replace_file(self, source: str, destination: str) -> None:
        self._call("replace", lambda: self._zone.replace_file(source, destination))

    def etag(self, path: str) -> str:
        return self._call("etag", lambda: self._zone.etag(path))

    def remove_folder(self, path: str, aside: str, etag: str) -> None:
        self._call("remove folder", lambda: self._zone.remove_folder(path, aside, etag))

    def revoke_folder(self, path: str) -> None:
        self._call("revoke", lambda: self._zone.revoke_folder(path))

    def _call(self, name: str, call: Callable[[], Answer]) -> Answer:
        trouble = self._troubles.draw(name)
        self._troubles.strike(trouble, Trouble.FAILS_BEFORE, Trouble.DIES_BEFORE)
        answer = call()
        self._troubles.strike(trouble, Trouble.FAILS_AFTER, Trouble.DIES_AFTER)
        return answer
