"""Operations of an administrator on one generation of a table. Each runs in one transaction and records an event.

Finds tables that a caller may see: one by its name, or the summaries of all.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Concatenate, ParamSpec

from app.api.auth.dependencies import check_sources, visible_name
from app.api.gateway import Gateway
from app.api.schemas.status import TableModel, table_statuses
from app.domain.access.mask_secret import hashes
from app.domain.access.rights import Principal, check_row_rules
from app.domain.health.facts import TableSummary
from app.domain.model.names import TableName, unknown_table
from app.domain.model.table import DropAction, DropPlan, FileNumber, Generation, Table, TableState
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema
from app.domain.rebuild import RebuiltColumn
from app.staging.access.mask_secrets import pin_mask_secret
from app.staging.connection.database import Connection, translated_errors
from app.staging.images import request_backfill, stop_backfill
from app.staging.overview import table_summaries
from app.staging.rebuild.progress import ColumnsOf, begin_checked_rebuild, begin_rebuild
from app.staging.tables.operations import begin_drop, release, request_flush, request_repair, set_publishing
from app.staging.tables.registry import find_table


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
        mask_secret = self.gateway.ingest.mask_secret
        if mask_secret is not None and hashes(plan.options):
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
