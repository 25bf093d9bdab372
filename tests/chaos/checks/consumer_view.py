"""What a consumer sees in a landing zone: folders, numbers, bytes. It uses no code of Mirrorgate."""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

PROCESSED: Final = "_ProcessedFiles"
METADATA: Final = ("_metadata.json", "_gateway.json")
FILE: Final = re.compile(r"(\d{20})\.parquet", re.ASCII)


@dataclass(frozen=True)
class SeenFile:
    """A landing file; `signature` changes with every change of it that the store can show."""

    signature: str
    read: Callable[[], bytes]


@dataclass
class SeenFolder:
    """A table's folder at one moment; `identity` distinguishes it from a later one at the same path."""

    folder: str
    identity: str
    marker: dict[str, Any] | None = None
    has_metadata: bool = False
    visible: dict[int, SeenFile] = field(default_factory=dict)
    processed: dict[int, SeenFile] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)

    @property
    def table(self) -> str:
        return self.folder.replace(".schema/", ".")

    def add(self, name: str, file: SeenFile) -> None:
        """Sort an entry of the folder by its name."""
        if match := FILE.fullmatch(name):
            self.visible[int(match[1])] = file
        elif name == METADATA[0]:
            self.has_metadata = isinstance(json.loads(file.read()), dict)
        elif name == METADATA[1]:
            self.marker = json.loads(file.read())
        elif not name.startswith("_"):
            self.strays.append(name)

    def add_processed(self, name: str, file: SeenFile) -> None:
        if match := FILE.fullmatch(name):
            self.processed[int(match[1])] = file


class LocalConsumer:
    """A landing zone in a folder; `consume` does to it what mirroring does."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def folders(self) -> list[SeenFolder]:
        """Return all table folders except those that disappear while they are listed."""
        found = []
        for folder in self._names():
            try:
                with _opened(self._root / folder) as descriptor:
                    seen = _read_folder(folder, descriptor)
                if str((self._root / folder).stat().st_ino) == seen.identity:
                    found.append(seen)
            except FileNotFoundError:
                continue
        return found

    def consume(self, folder: str, number: int) -> None:
        """Move a file away as mirroring does once it has taken it in."""
        name = f"{number:020d}.parquet"
        processed = self._root / folder / PROCESSED
        try:
            processed.mkdir(exist_ok=True)
            (self._root / folder / name).rename(processed / name)
        except FileNotFoundError:
            return  # the table was dropped just now

    def _names(self) -> Iterator[str]:
        for name in _visible_folders(self._root):
            if name.endswith(".schema"):
                yield from (f"{name}/{inside}" for inside in _visible_folders(self._root / name))
            else:
                yield name


def _visible_folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("_"))


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read_folder(folder: str, descriptor: int) -> SeenFolder:
    seen = SeenFolder(folder, str(os.fstat(descriptor).st_ino))
    names = os.listdir(descriptor)
    for name in sorted(names):
        if name == PROCESSED:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=descriptor)
            try:
                for processed in os.listdir(inner):  # noqa: PTH208  # of a descriptor
                    seen.add_processed(processed, _file(inner, processed))
            finally:
                os.close(inner)
        else:
            seen.add(name, _file(descriptor, name))
    return seen


def _file(folder: int, name: str) -> SeenFile:
    """Return a file; metadata is read at once, because it may be gone later."""
    path = Path(f"/proc/self/fd/{folder}").readlink() / name
    signature = _signature(os.stat(name, dir_fd=folder))
    if not FILE.fullmatch(name) and name in METADATA:
        content = path.read_bytes()
        return SeenFile("", lambda: content)

    def read() -> bytes:
        with path.open("rb") as file:
            if _signature(os.fstat(file.fileno())) != signature:
                raise FileNotFoundError(path)  # the folder of another generation is there now
            return file.read()

    return SeenFile(signature, read)


def _signature(facts: os.stat_result) -> str:
    return f"{facts.st_ino}/{facts.st_size}/{facts.st_mtime_ns}"
