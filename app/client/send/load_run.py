"""Send one file as a load session: begin, send, complete; continue after a crash.

The state folder has a file for each table with an unfinished load: its id, the file that is loaded, and how many of its
messages are durable. It is on disk before the load begins. If the gateway does not know the load, the command begins
another one and sends all messages. Messages that are sent again are upserts of the same values in the same order, so
the count may lag behind; each request has an idempotency key made of the load, its place and its body, so most are
recognized.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Self
from uuid import UUID, uuid4, uuid5

import msgspec

from app.client.chunking.chunks import Chunk
from app.client.http import GatewayClient, RejectedByGateway
from app.client.loads import Load, Mode
from app.client.producer import Patience
from app.client.send.folder import FileState
from app.client.send.journal import locked_folder
from app.errors import Code, Misconfigured

_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)


class LoadRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An unfinished load of a file."""

    load: str
    mode: Mode
    file: str
    size: int
    modified: int
    """Nanoseconds since 1970."""
    messages: int = 0
    """Messages of the file that are durable."""
    version: int = 1


class LoadRun:
    """The load of one file into one table. As the sender's names, it names the requests of the load."""

    is_numbered = True

    def __init__(self, path: Path, client: GatewayClient, table: str, mode: Mode, patience: Patience) -> None:
        self.status: Mapping[str, Any] = {}
        """The load as the gateway described it last."""
        self._path, self._client, self._table, self._mode = path, client, table, mode
        self._patience = patience
        self._record = LoadRecord("", mode, "", 0, 0)
        self._after = 0

    @classmethod
    @contextmanager
    def opened(cls, folder: Path, client: GatewayClient, table: str, mode: Mode, patience: Patience) -> Iterator[Self]:
        """Open the state of a table's load. Raises RejectedInput `already_running`, or Misconfigured `bad_setting`."""
        name = table if _PLAIN.fullmatch(table) else sha256(table.encode()).hexdigest()[:24]
        with locked_folder(folder, f"{name}.load", f"a load of the table {table} is running"):
            yield cls(folder / f"{name}.load.json", client, table, mode, patience)

    def start(self, file: str, state: FileState | None) -> int | None:
        """Begin a load of this file, or continue an unfinished one; return how many messages to skip, None if all.

        A load of another file or of other content is aborted. `state` is None for a stream, which is never continued.
        Raises RejectedByGateway.
        """
        wanted = state or FileState(0, 0)
        known = self._read()
        if known is not None:
            is_same = (known.mode, known.file, known.size, known.modified) == (
                self._mode,
                file,
                wanted.size,
                wanted.modified,
            )
            found = self._state_of(known)
            if is_same and state is not None and found in {"open", "completing", "completed"}:
                self._record = known
                return known.messages if found == "open" else None
            if found in {"open", "completing"}:
                self._load(known).abort()
        self._record = LoadRecord(str(uuid4()), self._mode, file, wanted.size, wanted.modified)
        self._begin()
        return 0

    def begin(self, chunk: Chunk) -> Mapping[str, str]:
        """Return the headers for the next request, which sends this chunk."""
        self._after = chunk.after
        key = uuid5(UUID(self._record.load), f"{chunk.first} {sha256(chunk.body).hexdigest()}")
        return {**self._load(self._record).headers, "Idempotency-Key": key.hex}

    def accepted(self) -> None:
        """Note that the last request is durable. After a crash before, it is sent again."""
        self._write(msgspec.structs.replace(self._record, messages=self._after))

    def complete(self) -> None:
        """Complete the load. After a crash, the next run of the same command completes it."""
        self.status = self._load(self._record).complete(self._note)
        self._path.unlink(missing_ok=True)

    def _begin(self) -> None:
        self._write(self._record)
        Load.begin(self._client, self._table, self._mode, load_id=self._record.load, patience=self._patience)

    def _note(self, status: Mapping[str, Any]) -> None:
        self.status = status

    def _load(self, record: LoadRecord) -> Load:
        return Load(self._client, self._table, record.load, self._patience)

    def _state_of(self, record: LoadRecord) -> str | None:
        """Return the state of a load, None if it was never begun."""
        try:
            return str(self._load(record).status()["state"])
        except RejectedByGateway as error:
            if error.code is not Code.UNKNOWN_LOAD:
                raise
            return None

    def _read(self) -> LoadRecord | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=LoadRecord)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            remedy = "Delete the file. The load that it names expires by itself, or abort it with its id."
            raise Misconfigured(Code.BAD_SETTING, f"{self._path} cannot be read", remedy=remedy) from error

    def _write(self, record: LoadRecord) -> None:
        """Replace the record: it is on disk when this returns, and after a crash before, the old one is."""
        new = self._path.with_suffix(".new")
        try:
            with new.open("wb") as file:
                file.write(msgspec.json.encode(record))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            detail = f"{self._path} cannot be written: {error.strerror}"
            raise Misconfigured(
                Code.BAD_SETTING, detail, remedy="Free some space, then run the same command again."
            ) from error
        self._record = record
