"""Reads the status of tables from the database and returns it as the API's models."""

from dataclasses import asdict

from app.api.schemas.loads import LoadModel
from app.api.schemas.mirror import MirrorModel
from app.api.schemas.operations import RebuildModel
from app.api.schemas.status import (
    BackfillModel,
    CountsModel,
    FabricModel,
    FailingModel,
    LagModel,
    ProcessedModel,
    PublishedModel,
    RowImagesSizeModel,
    TableModel,
    WaitingLettersModel,
)
from app.api.schemas.tables import TableOptionsModel
from app.domain.fabric.remedies import remedy_for
from app.domain.fabric.trouble import fabric_trouble
from app.domain.loads.load_session import LoadSession
from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber, Table
from app.staging.connection.database import Connection
from app.staging.images.backfill.progress import Backfill, find_backfills
from app.staging.images.size import ImagesSize, image_sizes
from app.staging.ledger.fabric_database import fabric_database
from app.staging.ledger.fabric_status import FabricStatus, fabric_statuses
from app.staging.ledger.failures import TableFailure, failing_tables
from app.staging.loads.sessions import open_loads
from app.staging.mirror.progress import MirrorProgress, mirror_progress
from app.staging.rebuild.progress import Rebuild, find_rebuilds
from app.staging.tables.status import TableCounts, count_tables


def table_statuses(connection: Connection, tables: list[Table]) -> list[TableModel]:
    """Return state, lag and reconciliation of these tables, in their order. Eight queries, however many they are."""
    table_ids = [table.table_id for table in tables]
    counts, processed = count_tables(connection, table_ids), fabric_statuses(connection, table_ids)
    failing, mirrored = failing_tables(connection, table_ids), mirror_progress(connection, table_ids)
    loads = open_loads(connection, table_ids)
    images = image_sizes(connection, [table.table_id for table in tables if table.options.keeps_images])
    backfills, rebuilds = find_backfills(connection, table_ids), find_rebuilds(connection, table_ids)
    return [
        _status(
            table,
            counts[table_id],
            processed.get(table_id),
            failing.get(table_id),
            mirrored.get(table_id),
            loads.get(table_id),
            images.get(table_id),
            backfills.get(table_id),
            rebuilds.get(table_id),
        )
        for table, table_id in zip(tables, table_ids, strict=True)
    ]


def _status(
    table: Table,
    counts: TableCounts,
    processed: FabricStatus | None,
    failing: TableFailure | None,
    mirrored: MirrorProgress | None,
    load: LoadSession | None,
    images: ImagesSize | None,
    backfill: Backfill | None,
    rebuild: Rebuild | None,
) -> TableModel:
    return TableModel(
        table=str(table.name),
        generation=table.generation,
        state=table.state,
        state_reason=counts.state_reason,
        failing=None if failing is None else FailingModel(**asdict(failing)),
        key_columns=list(table.schema.key_columns),
        schema_version=table.schema_version,
        options=TableOptionsModel(**table.options.to_json()),
        lag=LagModel(
            batches=counts.pending_batches,
            rows=counts.pending_rows,
            bytes=counts.pending_bytes,
            oldest_seconds=round(counts.oldest_seconds, 3),
        ),
        accepted=CountsModel(batches=counts.last_sequence, changes=counts.accepted_changes, rows=counts.accepted_rows),
        staged=CountsModel(batches=counts.staged_batches, changes=counts.staged_changes, rows=counts.staged_rows),
        published=PublishedModel(
            batches=counts.published_batches,
            changes=counts.published_changes,
            rows=counts.published_rows,
            files=counts.published_files,
        ),
        processed=None if processed is None else _processed(processed),
        mirror=None if mirrored is None else MirrorModel.of(mirrored),
        load=None if load is None else LoadModel.of(load, str(table.name)),
        row_images=None
        if images is None
        else RowImagesSizeModel(
            complete=images.is_complete, rows=images.rows, exact=images.is_exact, bytes=images.bytes
        ),
        backfill=None if backfill is None else BackfillModel.of(backfill),
        rebuild=None if rebuild is None else RebuildModel.of(rebuild),
        dead_letters=WaitingLettersModel(
            waiting=counts.waiting_letters, oldest_seconds=round(counts.oldest_letter_seconds, 3)
        ),
        last_sequence=counts.last_sequence,
        published_through=counts.published_through,
        last_file=file_name(FileNumber(counts.last_file)) if counts.last_file else None,
    )


def fabric_model(connection: Connection) -> FabricModel | None:
    """Return the mirrored database as Fabric's API last reported it; None where no drain asks."""
    found = fabric_database(connection)
    if found is None:
        return None
    trouble = fabric_trouble(found.facts)
    return FabricModel(
        state=found.facts.state,
        since=found.state_since,
        error=found.facts.error,
        read_at=found.answered_at,
        problem=None if trouble is None else trouble.detail,
        remedy=None if trouble is None else trouble.remedy,
    )


def _processed(status: FabricStatus) -> ProcessedModel:
    is_wrong = status.has_failed or status.error is not None
    return ProcessedModel(
        state=status.state,
        error=status.error,
        failed=status.has_failed,
        whose=status.whose,
        remedy=remedy_for(status.whose or "unknown") if is_wrong else None,
        rows=status.processed_rows,
        bytes=status.processed_bytes,
        last_sync=status.last_sync_at,
        read_at=status.read_at,
    )
