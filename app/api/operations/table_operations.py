"""Operations on one generation of a table, on its load sessions and on its dead letters.

Each runs in one transaction and records an event. Also finds tables that a caller may see: one by its name, or the
summaries of all.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Concatenate, Final, ParamSpec

from app.api.auth.dependencies import check_sources, visible_name
from app.api.gateway import Gateway
from app.api.schemas.status import TableModel, table_statuses
from app.domain.access.mask_secret import hashes
from app.domain.access.rights import Principal, check_row_rules
from app.domain.health.facts import TableSummary
from app.domain.loads import LoadId, LoadSession, LoadState, LoadStep
from app.domain.model.dead_letter import WrittenMessage
from app.domain.model.names import TableName, unknown_table
from app.domain.model.table import DropAction, DropPlan, FileNumber, Generation, Table, TableState
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema
from app.domain.rebuild import RebuiltColumn
from app.ingest import Replays, give_marker
from app.ingest.replay import ReplayedLetters
from app.observability.api_metrics import REPLAYED_LETTERS
from app.staging.access.mask_secrets import pin_mask_secret
from app.staging.batches.batch import Batch, Receipt, StagingRequest, TableMoved
from app.staging.batches.dead_letters import (
    StoredLetter,
    discard_letters,
    find_letter,
    read_message,
    require_waiting,
    settled_letter,
    unknown_letter,
)
from app.staging.connection.database import Connection, translated_errors
from app.staging.images import request_backfill, stop_backfill
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
from app.staging.overview import table_summaries
from app.staging.rebuild.progress import ColumnsOf, begin_checked_rebuild, begin_rebuild
from app.staging.tables.events import record_event
from app.staging.tables.operations import (
    begin_drop,
    locked_table,
    release,
    request_flush,
    request_repair,
    set_publishing,
)
from app.staging.tables.registry import find_table
from mirrorgate.parameters import LoadMode


def found_table(connection: Connection, name: TableName) -> Table:
    """Return the live table of this name. Raises RejectedInput `unknown_table`."""
    table = find_table(connection, name)
    if table is None:
        raise unknown_table(name)
    return table


def visible_table(connection: Connection, text: str, principal: Principal) -> Table:
    """Return the live table of this name if the caller may see it. Raises RejectedInput `bad_name`, `unknown_table`."""
    return found_table(connection, visible_name(text, principal))


def visible_summaries(connection: Connection, principal: Principal) -> list[TableSummary]:
    """Return the live tables that the caller may see, by name, read in one statement."""
    found = table_summaries(connection)
    if principal.oversees_every_table:
        return found
    return [summary for summary in found if principal.may_touch(TableName.parse(summary.name))]


_Arguments = ParamSpec("_Arguments")


@dataclass(frozen=True, slots=True)
class TableOperation:
    """The operations of an administrator on one generation of a table.

    Every method returns the status of the table. It raises RejectedInput `bad_name`, `unknown_table` (also for a name
    outside the caller's patterns), `generation_mismatch` and `wrong_table_state`.
    """

    table: str
    generation: Generation
    gateway: Gateway
    principal: Principal

    def pause(self) -> TableModel:
        """Stop publishing files. Changes are still accepted."""
        return self._run(set_publishing, TableState.PAUSED, self._actor)

    def resume(self) -> TableModel:
        """Publish files again after a pause."""
        return self._run(set_publishing, TableState.ACTIVE, self._actor)

    def flush(self) -> TableModel:
        """Publish what is accepted so far without delay."""
        return self._run(request_flush, self._actor)

    def repair(self, number: int) -> TableModel:
        """Write a published file again. Raises RejectedInput `unknown_file` or `payloads_purged`."""
        return self._run(request_repair, FileNumber(number), self._actor)

    def release(self, reason: str, *, rewrite_marker: bool) -> TableModel:
        """Let a quarantined table publish again."""
        return self._run(release, self._actor, reason, rewrite_marker=rewrite_marker)

    def drop(self) -> TableModel:
        """Begin to drop the table."""
        return self._run(begin_drop, DropPlan(DropAction.DROP), self._actor)

    def recreate(
        self,
        schema: TableSchema | None = None,
        options: TableOptions | None = None,
        *,
        given: Collection[str] | None = None,
    ) -> TableModel:
        """Begin a new generation; None keeps the present schema or options, of which `given` names the changed ones.

        Raises RejectedInput `bad_option` for options that the schema does not allow, and `forbidden` for a group of
        hashes that the caller may not declare.
        """
        check_sources(options.sources if options is not None else (), self.principal)
        plan = DropPlan(DropAction.RECREATE, schema, options)
        return self._run(self._begin_recreation, plan, given=given)

    def rename(self, new_name: str) -> TableModel:
        """Begin a new generation under another name, which the caller's patterns must include."""
        plan = DropPlan(DropAction.RENAME, new_name=visible_name(new_name, self.principal))
        return self._run(begin_drop, plan, self._actor)

    def rebuild(
        self, columns: Sequence[RebuiltColumn] | ColumnsOf | None, key_columns: Sequence[str] | None, *, dry_run: bool
    ) -> TableModel:
        """Begin to rebuild the table from its row images, or a dry run of that; None keeps columns or keys.

        Raises RejectedInput `no_row_images`, `bad_schema`, `bad_name` or `bad_option`.
        """
        return self._run(begin_rebuild, columns, key_columns, self._actor, dry_run=dry_run)

    def rebuild_as_checked(self, fingerprint: str) -> TableModel:
        """Begin to rebuild the table by the plan of the last dry run, if that is the one with this fingerprint."""
        return self._run(begin_checked_rebuild, fingerprint, self._actor)

    def backfill_images(self) -> TableModel:
        """Ask a drain to give a row image to each row.

        Raises RejectedInput `no_row_images`, `bad_option` or `payloads_purged`.
        """
        return self._run(request_backfill, self._actor)

    def cancel_backfill(self) -> TableModel:
        """Cancel the running backfill."""
        return self._run(stop_backfill, self._actor)

    def _begin_recreation(
        self,
        connection: Connection,
        name: TableName,
        generation: Generation,
        plan: DropPlan,
        *,
        given: Collection[str] | None,
    ) -> Table:
        """Begin a drop whose next generation may have hashed columns, under the gateway's secret."""
        mask_secret, present = self.gateway.ingest.mask_secret, found_table(connection, name).options
        options = plan.options or present
        if given is not None:
            options = options.over(present, given)
        if mask_secret is not None and hashes(options):
            pin_mask_secret(connection, mask_secret)
        table = begin_drop(connection, name, generation, plan, self._actor, given=given)
        if table.drop_plan is not None and table.drop_plan.options is not None:
            check_row_rules(table.options, table.drop_plan.options, table, self.principal)
        return table

    @property
    def _actor(self) -> str:
        """Return who is recorded in the event."""
        return self.principal.key_id

    def _run(
        self,
        change: Callable[Concatenate[Connection, TableName, Generation, _Arguments], Table],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> TableModel:
        """Call `change` in one transaction, wake the drain, and return the status of the table."""
        name = visible_name(self.table, self.principal)
        with translated_errors(), self.gateway.engine.begin() as connection:
            table = change(connection, name, self.generation, *args, **kwargs)
            status = table_statuses(connection, [table], self.gateway.backlog_shares)[0]
        self.gateway.wake_drain()
        return status


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


def require_letter(connection: Connection, name: TableName, letter_id: int) -> StoredLetter:
    """Return a dead letter of a table that has or had this name. Raises RejectedInput `unknown_dead_letter`."""
    letter = find_letter(connection, name, letter_id)
    if letter is None:
        raise unknown_letter(letter_id)
    return letter


def letter_message(gateway: Gateway, table: str, letter_id: int, principal: Principal) -> WrittenMessage:
    """Return the message of a dead letter, which contains row values. Raises what `require_letter` raises."""
    name = visible_name(table, principal)
    with translated_errors(), gateway.engine.begin() as connection:
        require_letter(connection, name, letter_id)
        return read_message(connection, letter_id)


async def replay_one(
    gateway: Gateway, table: str, letter_id: int, principal: Principal, correction: bytes | None = None
) -> Receipt:
    """Accept the message of a waiting letter, or the correction in its place. Raises what `Replays.replay` raises."""
    name = visible_name(table, principal)
    receipt = await Replays(gateway.ingest).replay(name, letter_id, principal, correction)
    REPLAYED_LETTERS.inc()
    return receipt


async def replay_waiting(
    gateway: Gateway, table: str, principal: Principal, *, after: int, limit: int
) -> ReplayedLetters:
    """Accept the oldest waiting dead letters of a table, each in a separate transaction."""
    name = visible_name(table, principal)
    done = await Replays(gateway.ingest).replay_waiting(name, principal, after=after, limit=limit)
    REPLAYED_LETTERS.inc(done.replayed)
    return done


def discard_one(gateway: Gateway, table: str, letter_id: int, principal: Principal) -> int:
    """Discard a dead letter; return how many, 0 for a settled one. Raises what `require_letter` raises."""
    name = visible_name(table, principal)
    with translated_errors(), gateway.engine.begin() as connection:
        require_letter(connection, name, letter_id)
        return _discard(connection, found_table(connection, name), letter_id, letter_id, principal)


def discard_waiting(gateway: Gateway, table: str, letter_id: int, principal: Principal) -> None:
    """Discard a dead letter that waits in the table's present generation.

    Raises RejectedInput `unknown_dead_letter`, `generation_mismatch` or `dead_letter_settled`.
    """
    name = visible_name(table, principal)
    with translated_errors(), gateway.engine.begin() as connection:
        letter = require_letter(connection, name, letter_id)
        found = require_waiting(letter, find_table(connection, name))
        if not _discard(connection, found, letter_id, letter_id, principal):
            raise settled_letter(letter_id)  # another caller has settled it since


def discard_through(gateway: Gateway, table: str, generation: Generation, last: int, principal: Principal) -> int:
    """Discard the waiting dead letters of a generation through a dead letter; return how many.

    Raises RejectedInput `unknown_table` or `generation_mismatch`.
    """
    name = visible_name(table, principal)
    with translated_errors(), gateway.engine.begin() as connection:
        return _discard(connection, locked_table(connection, name, generation), 1, last, principal)


def _discard(connection: Connection, table: Table, first: int, last: int, principal: Principal) -> int:
    key_id = principal.key_id
    count = discard_letters(connection, table.table_id, table.generation, first=first, last=last, principal=key_id)
    if count:
        record_event(connection, table, key_id, "dead letters discarded", details={"letters": count, "through": last})
    return count
