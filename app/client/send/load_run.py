"""Send one file as a load session: begin, send, complete; continue after a crash.

Nothing is kept on this machine: the id of the load is a hash of the file's state and of the load before it. So the same
command continues an open load of the same file. It sends all rows again: each request has an idempotency key made of
the load, its place and its body, so those that were cut alike are recognized. Others are upserts of the same values in
the same order.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final
from uuid import UUID, uuid4, uuid5

from app.client.chunking.chunks import Chunk
from app.client.folder import Found
from app.client.http import GatewayClient
from app.client.loads import Load, Mode
from app.client.producer import Patience
from app.client.table_path import table_path
from app.errors import MirrorgateError

_FIRST: Final = UUID("6e1ad2e0-8a53-4c60-9a1c-5f5c3b1c7c11")
"""In place of the load before, where there is none."""


class LoadRun:
    """The load of one file into one table. As the sender's names, it names the requests of the load."""

    is_numbered = True

    def __init__(self, client: GatewayClient, table: str, mode: Mode, patience: Patience) -> None:
        self.status: Mapping[str, Any] = {}
        """The load as the gateway described it last."""
        self._client, self._table, self._mode, self._patience = client, table, mode, patience
        self._load = Load(client, table, "", patience)

    def start(self, file: Found | None) -> bool:
        """Begin the load of a file, or continue the one that is open; return whether it takes rows.

        `file` is None for a stream, whose load is never continued. Raises RejectedByGateway, with `load_open` for an
        open load of another program or of other content.
        """
        listed = self._patience.call(lambda: self._client.get(f"{table_path(self._table)}/loads"))["loads"]
        ended = next((load["load"] for load in listed if load["state"] not in ("open", "completing")), None)
        state = "" if file is None else f"{self._mode} {file.key} {file.etag}"
        load_id = str(uuid4() if file is None else uuid5(_FIRST if ended is None else UUID(ended), state))
        self._load = Load(self._client, self._table, load_id, self._patience)
        if any(load["load"] == load_id and load["state"] == "completing" for load in listed):
            return False
        Load.begin(self._client, self._table, self._mode, load_id=load_id, patience=self._patience)
        return True

    def begin(self, chunk: Chunk, content: str, *, is_last: bool) -> Mapping[str, str]:
        """Return the headers for the next request, which sends this chunk."""
        key = uuid5(UUID(self._load.load_id), f"{chunk.first} {sha256(chunk.body).hexdigest()}")
        return {**self._load.headers, "Idempotency-Key": key.hex}

    def accepted(self) -> None:
        """Do nothing: after a crash, all rows are sent again."""

    def meaning_of(self, error: MirrorgateError) -> MirrorgateError:
        """Return the error itself."""
        return error

    def complete(self) -> None:
        """Complete the load. After a crash, the next run of the same command completes it."""
        self.status = self._load.complete(self._note)

    def abort(self) -> None:
        """End the load without deletes."""
        self.status = self._load.abort()

    def _note(self, status: Mapping[str, Any]) -> None:
        self.status = status
