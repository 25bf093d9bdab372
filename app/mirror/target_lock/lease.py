"""The lease of a target in an object store: the versions of a small Delta table, `<target>/_mirrorgate_lease`.

Each commit to the table states who holds the target and until when. A commit succeeds only as the successor of the
version that was read, which is the atomic step that every store of deltalake has. The lease of a killed process ends by
itself. Clocks of several machines should agree to some seconds; correctness does not depend on it.
"""

import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from app.mirror.object_store.store_errors import store_error
from app.mirror.object_store.store_options import store_options
from app.mirror.target_lock.held_target import taken

LEASE_TABLE: Final = "_mirrorgate_lease"
LEASE_SECONDS: Final = 60.0
"""A renewal costs about five requests to the store, and is due three times per lease."""

_ROWS: Final = pa.schema([("owner", pa.string())]).empty_table()
"""The table never has a row: the commits alone carry the lease."""
_CONFIGURATION: Final = {"delta.logRetentionDuration": "interval 1 hours", "delta.checkpointInterval": "100"}
_OWNER: Final = "mirrorgate.lease.owner"
_NAME: Final = "mirrorgate.lease.name"
_UNTIL: Final = "mirrorgate.lease.until"


@dataclass(frozen=True, slots=True)
class _Held:
    owner: str
    name: str
    until: float
    """Seconds since 1970, by the owner's clock."""


class TargetLease:
    """Takes, renews and gives up the lease of a target."""

    def __init__(
        self, location: str, storage_options: Mapping[str, str], *, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        """Take nothing yet."""
        self._location = location
        self._uri = f"{location.rstrip('/')}/{LEASE_TABLE}"
        self._options = dict(storage_options)
        self._lease_seconds = lease_seconds
        self._owner = uuid4().hex
        self._name = f"pid {os.getpid()} on {socket.gethostname()}"

    def acquire(self) -> None:
        """Take the lease, or renew it if this process has it.

        Raise Misconfigured `mirror_running` with the owner and the end of its lease, TemporarilyUnavailable
        `mirror_away` if the store fails, and Misconfigured `bad_setting` if it rejects this process.
        """
        with self._store_errors():
            for _ in range(2):
                table = self._open()
                held = self._held(table)
                if held is not None and held.owner != self._owner and held.until > time.time():
                    raise taken(self._location, f"{held.name}, until {_shown(held.until)} unless it renews its lease")
                with suppress(CommitFailedError):  # another process was faster: read its commit
                    self._commit(table, time.time() + self._lease_seconds)
                    return
            raise taken(self._location, "a process that has taken the lease in this moment")

    def release(self) -> None:
        """Give the lease up, unless another process has it."""
        with self._store_errors():
            table = self._open()
            held = self._held(table)
            if held is not None and held.owner == self._owner:
                with suppress(CommitFailedError):
                    self._commit(table, 0.0)

    def _open(self) -> DeltaTable:
        options = store_options(self._location, self._options)
        try:
            return DeltaTable(self._uri, storage_options=options)
        except TableNotFoundError:
            with suppress(CommitFailedError):  # another process was faster
                return DeltaTable.create(
                    self._uri,
                    Schema.from_arrow(_ROWS.schema),
                    mode="ignore",
                    configuration=_CONFIGURATION,
                    storage_options=options,
                )
            return DeltaTable(self._uri, storage_options=options)

    def _held(self, table: DeltaTable) -> _Held | None:
        """Return what the last commit of an owner states.

        The commit that creates the table has no owner. If two processes create it at once, deltalake commits the later
        creation again, as the successor of a lease that was taken meanwhile.
        """
        last = table.history(1)
        commits = last if _OWNER in last[0] else table.history()
        commit = next((entry for entry in commits if _OWNER in entry), None)
        if commit is None:
            return None
        return _Held(commit[_OWNER], commit[_NAME], float(commit[_UNTIL]))

    def _commit(self, table: DeltaTable, until: float) -> None:
        """Write the successor of the version that `table` holds. Raise CommitFailedError when there is one already."""
        stated = {_OWNER: self._owner, _NAME: self._name, _UNTIL: repr(until)}
        properties = CommitProperties(custom_metadata=stated, max_commit_retries=0)
        write_deltalake(table, _ROWS, mode="append", commit_properties=properties)

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, DeltaError) as error:
            raise store_error(f"the mirror's target {self._location}", error) from error


def _shown(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%H:%M:%S UTC")
