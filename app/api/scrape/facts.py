"""What one scrape reads from the database in one transaction: of the tables that the key can see, and the gateway."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.api.gateway import Gateway
from app.domain.access.rights import Principal
from app.domain.health.facts import GatewayFacts
from app.domain.loads.load_session import LoadSession
from app.domain.model.table import Table, TableId
from app.staging.connection.database import Connection
from app.staging.images.backfill.progress import Backfill, find_backfills
from app.staging.images.size import AllImages, all_images
from app.staging.ledger.fabric_status import FabricStatus, fabric_statuses
from app.staging.ledger.failures import TableFailure, failing_tables
from app.staging.ledger.leases import lease_owners
from app.staging.loads.sessions import open_loads
from app.staging.mirror.progress import MirrorProgress, mirror_progress
from app.staging.tables.gateway_status import gateway_facts
from app.staging.tables.registry import list_tables
from app.staging.tables.status import TableCounts, count_tables


@dataclass(frozen=True, slots=True)
class ScrapeFacts:
    """The facts behind the metrics of one scrape. What is not known of a table is missing in a mapping."""

    gateway: GatewayFacts | None = None
    images: AllImages | None = None
    tables: Sequence[Table] = ()
    counts: Mapping[TableId, TableCounts] = field(default_factory=dict)
    failing: Mapping[TableId, TableFailure] = field(default_factory=dict)
    owners: Mapping[TableId, str] = field(default_factory=dict)
    """The drain that has a table's lease."""
    fabric: Mapping[TableId, FabricStatus] = field(default_factory=dict)
    backfills: Mapping[TableId, Backfill] = field(default_factory=dict)
    """The last backfill of row images of a table's present generation."""
    mirrored: Mapping[TableId, MirrorProgress] = field(default_factory=dict)
    loads: Mapping[TableId, LoadSession] = field(default_factory=dict)
    """The open load sessions."""
    total_share: float | None = None
    """The backlog of all tables as a share of its limit; None while it is not watched."""
    shares: Mapping[TableId, float] = field(default_factory=dict)


def read_facts(connection: Connection, principal: Principal, gateway: Gateway) -> ScrapeFacts:
    """Read the facts for a key."""
    tables = [table for table in list_tables(connection) if principal.may_touch(table.name)]
    ids = [table.table_id for table in tables]
    backlog = gateway.ingest.backlog
    return ScrapeFacts(
        gateway=gateway_facts(connection),
        images=all_images(connection),
        tables=tables,
        counts=count_tables(connection, ids),
        failing=failing_tables(connection, ids),
        owners=lease_owners(connection, ids),
        fabric=fabric_statuses(connection, ids),
        backfills=_present_backfills(connection, tables),
        mirrored=mirror_progress(connection, ids),
        loads=open_loads(connection, ids),
        total_share=None if backlog is None else backlog.total_share(),
        shares={} if backlog is None else {table.table_id: backlog.share_of(table) for table in tables},
    )


def _present_backfills(connection: Connection, tables: Sequence[Table]) -> dict[TableId, Backfill]:
    found = find_backfills(connection, [table.table_id for table in tables])
    return {
        table.table_id: one for table in tables if (one := found.get(table.table_id)) is not None and one.is_of(table)
    }
