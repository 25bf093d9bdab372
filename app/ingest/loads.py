"""Rows of one table as an Arrow stream, from bytes to a receipt: an initial load, or plain rows with operations."""

import asyncio
from dataclasses import dataclass, replace

from app.domain.access.rights import Principal
from app.domain.loads import LoadId, LoadStep
from app.domain.model.change import UNLIMITED, InputLimits, Operation
from app.domain.model.names import TableName
from app.domain.model.request_identity import RequestIdentity
from app.domain.model.table import Table
from app.domain.rows.from_arrow import changed_rows, snapshot_rows
from app.formats.arrow import decode_arrow_stream
from app.formats.foreign_forms import Form, explained
from app.formats.rows.columnar import split_operations
from app.formats.rows.declaration import Declaration, declaration_of
from app.formats.rows.messages import OPERATION_COLUMN
from app.ingest.changed_tables import give_marker, register_declared, retry_moved
from app.ingest.parsed_request import Registered, registered_answer
from app.ingest.pipeline import Ingest, IngestResult, or_stored_result
from app.ingest.readers import present_table
from app.ingest.table_cache import TableCache
from app.staging.batches.batch import Batch, MarkerNeeded, StagingRequest
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import RowOperation


@dataclass(frozen=True, slots=True)
class RowsOfStream:
    """The parameters of a plain-rows request for its Arrow stream."""

    operation: RowOperation
    """The operation of rows without one."""
    declared: Declaration | None = None
    key_columns: tuple[str, ...] | None = None
    """Set if the schema of the stream declares the table; these are its keys."""


@dataclass(frozen=True, slots=True)
class ArrowLoad:
    """An Arrow stream of rows for one table."""

    table: TableName
    body: bytes
    limits: InputLimits = UNLIMITED
    rows: RowsOfStream | None = None
    """None for the snapshot rows of an initial load."""

    async def accept(
        self, ingest: Ingest, principal: Principal, identity: RequestIdentity | None, load_id: LoadId | None = None
    ) -> IngestResult:
        """Stage the rows as one batch, of a load session if one is named, and return after COMMIT.

        Raises what `Ingest.accept` raises.
        """
        step = None if load_id is None else LoadStep(load_id)
        return await or_stored_result(self._accept(ingest, principal, identity, step))

    def batch(
        self, table_cache: TableCache, principal: Principal, *, in_load: bool = False
    ) -> tuple[Batch, Registered | None]:
        """Return the typed rows, and what the stream registered for them. Raises RejectedInput or TableMoved."""
        limits = self.limits.adding()
        bounds = (limits.value_bytes, limits.reserve)
        if self.rows is None:  # the table first: a body says nothing about a table that the caller may not see
            table = _accepting(present_table(self.table, table_cache, principal))
            given = decode_arrow_stream(self.body, limits)
            rows = snapshot_rows(given, table_cache.rules(table, in_load=in_load), *bounds)
            if table.schema.can_need_marker and table.cdc_started and not in_load:  # a reload: upserts
                table = give_marker(table, table_cache, principal)
            return Batch(table, rows), None
        given = decode_arrow_stream(self.body, limits)
        declared = self.rows.declared
        if self.rows.key_columns is not None:
            columns = [field for field in given.schema if field.name != OPERATION_COLUMN]
            declared = declaration_of(columns, self.rows.key_columns)
        registered = register_declared(declared, self.table, table_cache, principal)
        given, operations = split_operations(given, self.rows.operation)
        table = _accepting(present_table(self.table, table_cache, principal))
        rules = table_cache.rules(table, in_load=in_load)
        if needs_marker := table.schema.can_need_marker and {*operations.kinds} != {Operation.INSERT}:
            rules = replace(rules, schema=replace(table.schema, bare=False))
        rows = changed_rows(given, operations, rules, *bounds)
        return Batch(give_marker(table, table_cache, principal) if needs_marker else table, rows), registered

    def explained(self, error: RejectedInput) -> RejectedInput:
        """Return the rejection of the body, which names the right endpoint if the body is of another form."""
        return explained(error, self.body, Form.ARROW)

    async def _accept(
        self, ingest: Ingest, principal: Principal, identity: RequestIdentity | None, step: LoadStep | None
    ) -> IngestResult:
        await ingest.check_not_staged(identity)
        done: list[Registered] = []

        async def attempt() -> IngestResult:
            batch, registered = await asyncio.to_thread(
                self.batch, ingest.table_cache, principal, in_load=step is not None
            )
            if registered is not None:
                done.append(registered)
            ingest.check_room(batch.table)
            answer = registered_answer(done[0] if done else None)
            content = StagingRequest([batch], identity, registered=answer, load=step)
            try:
                return IngestResult(await ingest.stage(content), registered=answer)
            except MarkerNeeded as needed:
                await asyncio.to_thread(give_marker, needed.table, ingest.table_cache, principal)
                raise

        return await retry_moved(attempt)


def _accepting(table: Table) -> Table:
    if not table.state.accepts_changes:
        raise RejectedInput(Code.TABLE_NOT_ACCEPTING, f"table {table.name} is {table.state}")
    return table
