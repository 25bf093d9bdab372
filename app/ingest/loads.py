"""Initial loads: the snapshot rows of one table as an Arrow stream, from bytes to a receipt."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from app.domain.access.rights import Principal
from app.domain.model.input_limits import UNLIMITED, InputLimits
from app.domain.model.names import TableName
from app.domain.model.request_identity import RequestIdentity
from app.domain.model.source_name import SourceName
from app.domain.rows.row_rules import RowRules
from app.domain.rows.snapshot_rows import snapshot_rows
from app.errors import Code, RejectedInput
from app.formats.arrow.stream import decode_arrow_stream
from app.ingest.ingest_result import IngestResult, or_stored_result
from app.ingest.moved_tables import retry_moved
from app.ingest.pipeline import Ingest
from app.staging.batches.batch import Batch


@dataclass(frozen=True, slots=True)
class ArrowLoad:
    """An Arrow stream of rows for one table."""

    table: TableName
    body: bytes
    limits: InputLimits = UNLIMITED
    reserve: Callable[[int], None] = lambda _: None
    """Reserves memory for the typed rows, in bytes, before they are built; raises where too little is left."""

    async def accept(self, ingest: Ingest, principal: Principal, identity: RequestIdentity | None) -> IngestResult:
        """Stage the rows as one batch and return after COMMIT. Raises what `Ingest.accept` raises."""
        return await or_stored_result(self._accept(ingest, principal, identity))

    async def _accept(self, ingest: Ingest, principal: Principal, identity: RequestIdentity | None) -> IngestResult:
        await ingest.check_not_staged(identity)

        async def attempt() -> IngestResult:
            batch = await asyncio.to_thread(self._batch, ingest, principal)
            await ingest.check_backlog(batch.table, identity)
            return IngestResult(await ingest.receipts_of(ingest.group_commit.submit([batch], identity)))

        return await retry_moved(attempt)

    def _batch(self, ingest: Ingest, principal: Principal) -> Batch:
        source = SourceName.address(self.table)
        table = ingest.table_cache.refresh(source)
        if table is None or not principal.may_touch(table.name):
            withheld = ingest.table_cache.withheld(source, principal)
            raise RejectedInput(Code.UNKNOWN_TABLE, f"table {self.table} is not registered", withheld=withheld)
        if not table.state.accepts_changes:
            raise RejectedInput(Code.TABLE_NOT_ACCEPTING, f"table {table.name} is {table.state}")
        given = decode_arrow_stream(self.body, self.limits)
        return Batch(table, snapshot_rows(given, RowRules.of(table), self.limits.value_bytes, self.reserve))
