"""Registers and evolves a table as Replicate metadata (MD) messages declare, and stores the versions of its source."""

from collections.abc import Sequence

import structlog

from app.domain.access.rights import Principal
from app.domain.model.source_routing import case_detail
from app.domain.model.table import Table
from app.errors import Code, Problem, RejectedInput
from app.formats.replicate.history import SourceHistory, SourceVersion, extend, new_entries
from app.formats.replicate.metadata import TableMetadata
from app.formats.replicate.renames import columns_in_another_case, renamed_columns
from app.ingest.table_cache import TableCache
from app.staging.batches.sequence_lock import lock_counters
from app.staging.connection.database import Connection, translated_errors
from app.staging.tables.registration import (
    Registration,
    RegistrationOutcome,
    find_locked_table,
    register_table,
)
from app.staging.tables.registration_events import record_registration
from app.staging.tables.replicate_sources import record_replicate_metadata, replicate_metadata

log = structlog.get_logger()


def register_versions(
    table_cache: TableCache,
    principal: Principal,
    before: SourceHistory | None,
    entries: Sequence[TableMetadata],
) -> int:
    """Apply metadata messages of one table in one transaction, and return how many were new.

    Messages that repeat an earlier version change nothing, see `new_entries`. A crash before COMMIT leaves the table
    as it was. Raises RejectedInput.
    """
    accepted = new_entries(before, entries)
    if not accepted:
        return 0
    name = entries[0].table
    outcomes: list[RegistrationOutcome] = []
    with translated_errors(), table_cache.begin() as connection:
        versions = list(before.versions) if before else []
        for entry in accepted:
            registration = _evolved(
                connection, entry, _previous(versions, entry), marker_first=table_cache.marker_first
            )
            record_registration(connection, registration, principal.key_id, "metadata message")
            outcomes.append(registration.outcome)
            versions.append(SourceVersion.of(entry))
        table_id = registration.table.table_id
        stored = replicate_metadata(connection, table_id, lock=True)
        present = SourceHistory.from_json(stored) if stored else None
        history = extend(present, entries)
        if history != present:
            record_replicate_metadata(connection, table_id, history.to_json())
    table_cache.forget_table(name)
    for outcome in outcomes:
        if outcome is not RegistrationOutcome.UNCHANGED:
            log.info("table_registered", table=str(name), outcome=outcome, by="metadata message")
    return len(accepted)


def rejection(code: Code, detail: str, index: int, pointer: str, *, withheld: str | None = None) -> RejectedInput:
    """Return the rejection of a request because of one message."""
    return RejectedInput.of((Problem(code, detail, index, pointer),), withheld=withheld)


def _previous(versions: Sequence[SourceVersion], entry: TableMetadata) -> SourceVersion | None:
    """Return the version that a message follows: the last one of its task, or of any task if its task has none."""
    own = [version for version in versions if version.task == entry.task]
    followed = own or versions
    return followed[-1] if followed else None


def _evolved(
    connection: Connection, entry: TableMetadata, previous: SourceVersion | None, *, marker_first: bool
) -> Registration:
    """Register what one metadata message declares. A rejection names the message."""
    present = find_locked_table(connection, entry.table)
    try:
        if present is None:
            wanted = entry.schema_after(None)
        else:
            wanted = entry.schema_after(present.schema, present.options)
            _check_renames(connection, entry, previous, present)
        registration = register_table(connection, entry.table, wanted, marker_first=marker_first)
        if registration.table.name != entry.table:  # another process has just registered the twin
            raise RejectedInput(Code.SOURCE_CASE_MISMATCH, case_detail(entry.source, registration.table))
        return registration
    except RejectedInput as error:
        if any(problem.index is not None for problem in error.problems):
            raise
        raise rejection(error.code, error.detail, entry.index, f"{entry.at}/tableStructure") from None


def _check_renames(
    connection: Connection, entry: TableMetadata, previous: SourceVersion | None, present: Table
) -> None:
    """Raise RejectedInput `column_renamed`, unless the table has accepted no row yet and so has nothing to lose."""
    problems = [*columns_in_another_case(entry, present.schema, present.options)]
    renamed = [] if problems else [*renamed_columns(entry, previous, present.schema, present.options)]
    if renamed and lock_counters(connection, [present.table_id])[present.table_id].last_sequence:
        problems += renamed
    if problems:
        raise RejectedInput.of(tuple(problems))
