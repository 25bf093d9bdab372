"""Reads the status of tables from the database and returns it as the API's models."""

from collections.abc import Mapping

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
    TroubleModel,
    WaitingLettersModel,
)
from app.api.schemas.tables import TableOptionsModel
from app.domain.fabric.remedies import remedy_for
from app.domain.health.facts import HealthFacts
from app.domain.health.troubles import database_troubles, troubles
from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber, Table, TableLife
from app.staging.connection.database import Connection
from app.staging.images.size import ImagesSize
from app.staging.ledger.fabric_database import fabric_database
from app.staging.ledger.fabric_status import FabricStatus
from app.staging.overview.table_facts import TableFacts, find_facts


def table_statuses(connection: Connection, tables: list[Table], shares: Mapping[TableLife, float]) -> list[TableModel]:
    """Return state, lag, reconciliation and troubles of these tables; `shares` are those of their backlog limits."""
    return [_status(facts, shares) for facts in find_facts(connection, tables)]


def _status(facts: TableFacts, shares: Mapping[TableLife, float]) -> TableModel:
    table, counts = facts.table, facts.counts
    found = troubles(HealthFacts(tables=[facts.summary], shares=shares))
    return TableModel(
        table=str(table.name),
        generation=table.generation,
        state=table.state,
        state_reason=counts.state_reason,
        quarantined_at=counts.quarantined_at,
        failing=None if facts.failure is None else FailingModel.of(facts.failure),
        key_columns=list(table.schema.key_columns),
        schema_version=table.schema_version,
        rows_lack=dict(table.late_columns),
        options=TableOptionsModel(**table.options.to_json()),
        lag=LagModel(
            batches=counts.pending_batches,
            rows=counts.pending_rows,
            bytes=counts.pending_bytes,
            oldest_seconds=counts.oldest_seconds,
        ),
        accepted=CountsModel(batches=counts.last_sequence, changes=counts.accepted_changes, rows=counts.accepted_rows),
        staged=CountsModel(batches=counts.staged_batches, changes=counts.staged_changes, rows=counts.staged_rows),
        published=PublishedModel(
            batches=counts.published_batches,
            changes=counts.published_changes,
            rows=counts.published_rows,
            files=counts.published_files,
        ),
        processed=None if facts.fabric is None else _processed(facts.fabric),
        mirror=None if facts.mirror is None else MirrorModel.of_progress(facts.mirror),
        load=None if facts.load is None else LoadModel.of_session(facts.load, str(table.name)),
        row_images=None if facts.images is None else _images(facts.images),
        backfill=None if facts.present_backfill is None else BackfillModel.of(facts.present_backfill),
        rebuild=None if facts.rebuild is None else RebuildModel.of(facts.rebuild),
        dead_letters=WaitingLettersModel(waiting=counts.waiting_letters, oldest_seconds=counts.oldest_letter_seconds),
        last_sequence=counts.last_sequence,
        published_through=counts.published_through,
        troubles=[TroubleModel.of(trouble) for trouble in found],
        last_file=file_name(FileNumber(counts.last_file)) if counts.last_file else None,
    )


def _images(images: ImagesSize) -> RowImagesSizeModel:
    return RowImagesSizeModel.of(images, complete=images.is_complete, exact=images.is_exact)


def fabric_model(connection: Connection) -> FabricModel | None:
    """Return the mirrored database as Fabric's API last reported it; None where no drain asks."""
    found = fabric_database(connection)
    if found is None:
        return None
    trouble = next(database_troubles(found.facts), None)
    return FabricModel(
        state=found.facts.state,
        since=found.state_since,
        error=found.facts.error,
        read_at=found.answered_at,
        problem=None if trouble is None else trouble.detail,
        remedy=None if trouble is None else trouble.remedy,
    )


def _processed(status: FabricStatus) -> ProcessedModel:
    return ProcessedModel(
        state=status.state,
        error=status.error,
        failed=status.has_failed,
        whose=status.whose,
        remedy=remedy_for(status.whose or "unknown") if status.fault is not None else None,
        rows=status.processed_rows,
        bytes=status.processed_bytes,
        last_sync=status.last_sync_at,
        read_at=status.read_at,
    )
