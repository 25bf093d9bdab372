"""Tables with staged blocks, a lease and planned files, as the drain would create them."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID, uuid4

import sqlalchemy as sa

from app.domain.model.landing_file import BuiltFile, PlannedFile
from app.domain.model.table import Epoch, Table, TableId
from app.domain.publication import ChainBlock, FileLimits
from app.staging.ledger.files import read_chain, record_published, register_builds
from app.staging.ledger.leases import Claim, claim_table, renew_lease
from app.staging.ledger.planning import plan_next_files
from app.staging.tables.status import TableCounts, count_tables
from tests.support.gateway_parts import current, registered, stage_keys
from tests.support.postgres import sql
from tests.support.samples.schemas import schema_of

ONE_BLOCK_A_FILE = FileLimits(payload_bytes=1, rows=1, max_delay_seconds=0)
ALL_IN_ONE_FILE = FileLimits(payload_bytes=2**30, rows=2**30, max_delay_seconds=0)


@dataclass(frozen=True)
class Owned:
    """A table, and the worker and epoch that own it."""

    table: Table
    worker: UUID
    epoch: Epoch


def counts_of(engine: sa.Engine, table: Table) -> TableCounts:
    """Return what the status of a table counts."""
    return sql.call(engine, count_tables, [table.table_id])[table.table_id]


def owned_table(engine: sa.Engine, *batches: list[int], name: str = "t") -> Owned:
    """Create a table of one key column `id` with these staged batches, one block each, owned by a new worker."""
    stage_keys(engine, registered(engine, name, schema_of({"id": "int64"}, ["id"])), *batches)
    return owned_now(engine, name)


def owned_now(engine: sa.Engine, name: str) -> Owned:
    """Return a table as it is now, owned by a new worker."""
    table = current(engine, name)
    return Owned(table, *claim_by(engine, table.table_id))


def claim_by(engine: sa.Engine, table_id: TableId) -> tuple[UUID, Epoch]:
    """Return a new worker and the epoch under which it owns the table."""
    worker = uuid4()
    epoch = claim(engine, table_id, worker)
    assert epoch is not None
    return worker, epoch


def claim(engine: sa.Engine, table_id: TableId, worker: UUID, *, held: Epoch | None = None) -> Epoch | None:
    """Claim with a heartbeat of a minute."""
    with engine.begin() as connection:
        renew_lease(connection, worker, 60)
        return claim_table(connection, table_id, worker, held=held)


def end_lease(engine: sa.Engine, worker: UUID) -> None:
    """Expire the lease of a worker that no longer renews it."""
    past = "lease_until = clock_timestamp() - interval '1 second'"
    sql.run(engine, f"UPDATE mirrorgate.workers SET {past} WHERE worker_id = :worker", worker=worker)


def claimed(engine: sa.Engine, name: str, worker: UUID) -> TableId:
    """Let a worker claim a table, as if all others had died, and return the id of the table."""
    table_id = current(engine, name).table_id
    sql.run(engine, "UPDATE mirrorgate.workers SET lease_until = clock_timestamp()")
    assert claim(engine, table_id, worker) is not None
    return table_id


def plan(
    engine: sa.Engine, owned: Owned, limits: FileLimits = ONE_BLOCK_A_FILE, *, limit: int = 100
) -> list[PlannedFile]:
    plans = sql.call(engine, plan_next_files, [Claim(owned.table, owned.epoch)], limits, max_files=limit)
    return plans[owned.table.table_id]


def ranges(files: Iterable[PlannedFile]) -> list[tuple[int, int, int, int]]:
    """Return the number, first and last batch, and rows of each file."""
    return [(f.identity.number, f.identity.first_sequence, f.identity.last_sequence, f.identity.rows) for f in files]


def chain(engine: sa.Engine, table: Table) -> list[ChainBlock]:
    """Return the metadata blocks of a table."""
    with engine.begin() as connection:
        return [*read_chain(connection, table.table_id, table.generation)]


def built(owned: Owned, planned: PlannedFile, temp_name: str = "temp") -> BuiltFile:
    return BuiltFile(planned, owned.epoch, temp_name, file_bytes=10, file_sha256="00")


def build_registered(engine: sa.Engine, file: BuiltFile) -> bool:
    return sql.call(engine, register_builds, [file]) == {file.planned.table_id}


def record(engine: sa.Engine, owned: Owned, planned: PlannedFile) -> None:
    sql.call(engine, record_published, {planned: owned.epoch})


def publish_all(engine: sa.Engine, owned: Owned, limits: FileLimits = ONE_BLOCK_A_FILE) -> None:
    """Publish in the ledger whatever a table has."""
    for file in plan(engine, owned, limits, limit=1_000):
        publish(engine, owned, file)


def publish(engine: sa.Engine, owned: Owned, planned: PlannedFile) -> None:
    """Nominate and record, as if the file had become visible in between."""
    assert build_registered(engine, built(owned, planned))
    record(engine, owned, planned)
