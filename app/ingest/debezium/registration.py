"""Registers and evolves a table as the Connect schema of its events declares, in one transaction."""

from collections.abc import Sequence

import structlog

from app.domain.access.rights import Principal
from app.domain.model.names import TableName
from app.domain.model.source_name import SourceName
from app.domain.model.source_routing import case_detail
from app.domain.model.table import Table
from app.errors import Code, RejectedInput
from app.formats.debezium.connect_schema import ConnectField
from app.formats.debezium.table_plan import filled_columns, renamed_columns, wanted_schema
from app.ingest.table_cache import TableCache
from app.staging.batches.sequence_lock import lock_counters
from app.staging.connection.database import Connection, translated_errors
from app.staging.tables.registration import RegistrationOutcome, find_locked_table, register_table
from app.staging.tables.registration_events import record_registration

log = structlog.get_logger()


def register_schema(
    table_cache: TableCache,
    principal: Principal,
    name: TableName,
    fields: Sequence[ConnectField],
    keys: Sequence[str] | None,
    *,
    after_rows: bool = False,
) -> None:
    """Bring a table to what rows of these fields need. Repeating it changes nothing.

    `after_rows` says that the request has rows of an older schema, which lack new columns as stored rows do.

    A crash before COMMIT leaves the table as it was. Raises RejectedInput.
    """
    with translated_errors(), table_cache.begin() as connection:
        present = find_locked_table(connection, name)
        wanted = wanted_schema(fields, keys, present)
        if wanted is None:
            return
        if present is not None:
            _check_renames(connection, fields, present)
        filled = frozenset() if present is None else filled_columns(fields, present)
        registration = register_table(
            connection, name, wanted, marker_first=table_cache.marker_first, filled=filled, after_rows=after_rows
        )
        if registration.table.name != name:  # another process has just registered the twin
            detail = case_detail(SourceName(None, name.schema, name.table), registration.table)
            raise RejectedInput(Code.SOURCE_CASE_MISMATCH, detail)
        record_registration(connection, registration, principal.key_id, "Connect schema")
    if registration.outcome is not RegistrationOutcome.UNCHANGED:
        log.info("table_registered", table=str(name), outcome=registration.outcome, by="Connect schema")
    lacking = sorted(filled.intersection(registration.table.late_columns))
    if lacking:
        log.warning("rows_lack_columns", table=str(name), columns=lacking, remedy="Load the table again.")


def _check_renames(connection: Connection, fields: Sequence[ConnectField], present: Table) -> None:
    """Raise RejectedInput `column_renamed`, unless the table has accepted no row yet and so has nothing to lose."""
    for old, new in renamed_columns(fields, present):
        if lock_counters(connection, [present.table_id])[present.table_id].last_sequence:
            raise RejectedInput(Code.COLUMN_RENAMED, f"column {old!r} seems to have been renamed to {new!r}")
