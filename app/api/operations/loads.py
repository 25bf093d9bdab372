"""Begins, completes and aborts load sessions for a caller (decision 0069).

Completing a full load deletes in small batches, which pass through the group commit like the stream's. A request does
so for a bounded time; the caller repeats it until the load is completed. So a crash at any point, of the caller or of
the gateway, is mended by repeating the request.
"""

import time
from dataclasses import dataclass
from typing import Final

from app.api.auth.dependencies import visible_name
from app.api.gateway import Gateway
from app.api.operations.table_operations import found_table
from app.domain.access.rights import Principal
from app.domain.loads import LoadId, LoadSession, LoadState, LoadStep
from app.domain.model.names import TableName
from app.domain.model.table import Table
from app.ingest import give_marker
from app.staging.batches.batch import Batch, StagingRequest, TableMoved
from app.staging.connection.database import translated_errors
from app.staging.loads import (
    UnseenPage,
    abort_load,
    begin_completion,
    begin_load,
    finish_completion,
    get_load,
    list_loads,
    next_unseen,
    note_scanned,
)
from mirrorgate.parameters import LoadMode

COMPLETION_SECONDS: Final = 10.0
"""Seconds for which one request deletes rows before it answers that it is not finished."""


@dataclass(frozen=True, slots=True)
class LoadOperation:
    """The operations of a caller on the load sessions of one table.

    Methods raise RejectedInput `bad_name` and `unknown_table`, and with an id `unknown_load`.
    """

    table: str
    gateway: Gateway
    principal: Principal

    @property
    def name(self) -> TableName:
        """The table's name, if the caller may see it."""
        return visible_name(self.table, self.principal)

    def begin(self, load_id: LoadId, mode: LoadMode) -> tuple[LoadSession, bool]:
        """Begin a load; return it, and False if the same request began it before.

        Raises RejectedInput `table_not_accepting`, `wrong_table_state`, `no_row_images`, `load_open` or `load_ended`.
        """
        idle_seconds = self.gateway.settings.load_idle_hours * 3_600
        with translated_errors(), self.gateway.engine.begin() as connection:
            return begin_load(connection, self.name, load_id, mode, idle_seconds, self.principal.key_id)

    def abort(self, load_id: LoadId) -> LoadSession:
        """End a load without deletes. Raises RejectedInput `load_ended` if it is completed."""
        with translated_errors(), self.gateway.engine.begin() as connection:
            return abort_load(connection, self.name, load_id, self.principal.key_id)

    def get(self, load_id: LoadId) -> LoadSession:
        """Return a load."""
        with translated_errors(), self.gateway.engine.begin() as connection:
            return get_load(connection, found_table(connection, self.name), load_id)

    def list(self) -> list[LoadSession]:
        """Return the newest loads, the newest first."""
        with translated_errors(), self.gateway.engine.begin() as connection:
            return list_loads(connection, found_table(connection, self.name))

    def complete(self, load_id: LoadId, *, seconds: float = COMPLETION_SECONDS) -> LoadSession:
        """Complete a load as far as the time allows; it is `completing` until no unseen row is left.

        Dying in between leaves what was deleted until then, and a load that this method continues. Raises RejectedInput
        `load_ended`, `no_row_images` or `table_not_accepting`, and TemporarilyUnavailable, after which the caller
        repeats the request.
        """
        deadline = time.monotonic() + seconds
        with translated_errors(), self.gateway.engine.begin() as connection:
            load = begin_completion(connection, self.name, load_id, self.principal.key_id)
        while load.state is LoadState.COMPLETING and time.monotonic() < deadline:
            load = self._advance(load)
        return load

    def _advance(self, load: LoadSession) -> LoadSession:
        """Delete the next unseen rows of a load, or complete it if none is left."""
        with translated_errors(), self.gateway.engine.begin() as connection:
            table = found_table(connection, self.name)
            table.require_images()
            page = next_unseen(connection, table, load)
            if page.scanned_through is None:
                return finish_completion(connection, self.name, load.load_id, self.principal.key_id)
            if page.rows is None:
                return note_scanned(connection, load, page.scanned_through)
        self._delete(table, load, page)
        return self.get(load.load_id)

    def _delete(self, table: Table, load: LoadSession, page: UnseenPage) -> None:
        assert page.rows is not None
        ingest = self.gateway.ingest
        if table.schema.bare:
            give_marker(table, ingest.table_cache, self.principal)
            return
        ingest.check_room(table)
        step = LoadStep(load.load_id, removes=True, scanned_through=page.scanned_through)
        try:
            ingest.group_commit.submit(StagingRequest([Batch(table, page.rows)], load=step)).result()
        except TableMoved:
            return  # the next round reads the table as it is then
