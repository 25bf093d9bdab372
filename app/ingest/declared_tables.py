"""Register the table that a request of plain rows declares, or add the columns that the table lacks."""

from typing import Final

import structlog

from app.domain.access.rights import Principal, Right
from app.domain.model.names import SourceName, TableName
from app.domain.model.table import case_detail
from app.formats.rows.declaration import Declaration
from app.ingest.parsed_request import Registered
from app.ingest.table_cache import TableCache
from app.staging.connection.database import Connection, translated_errors
from app.staging.tables.registration import (
    Registration,
    RegistrationOutcome,
    find_locked_table,
    record_registration,
    register_table,
)
from mirrorgate.errors import Code, RejectedInput, TemporarilyUnavailable

log = structlog.get_logger()

_BY: Final = "rows"
_MAX_ATTEMPTS: Final = 5


class _Raced(Exception):
    """Another request registered the table meanwhile; the transaction is undone."""


def register_declared(
    declared: Declaration | None,
    name: TableName,
    table_cache: TableCache,
    principal: Principal,
) -> Registered | None:
    """Register or extend a table as a request declares, in a separate transaction; None if it has all of it.

    It remains registered if the request is rejected for its rows. A crash before COMMIT leaves the table as it was, and
    a repeat changes nothing. A table outside the caller's patterns is left to the reader, which does not find it.
    Raises RejectedInput `forbidden`, `incompatible_schema`, `source_case_mismatch` and what `register_table` raises.
    """
    if declared is None:
        return None
    source = SourceName.address(name)
    for _ in range(_MAX_ATTEMPTS):
        present = table_cache.refresh(source)
        target = name if present is None else present.name
        if not principal.may_touch(target):
            return None
        if present is not None and declared.is_met_by(present.schema, present.options.exclude):
            return None
        if not principal.may(Right.REGISTER, target):
            detail = "the declared table or column is not registered, and the key lacks the right `register`"
            raise RejectedInput(Code.FORBIDDEN, detail)
        try:
            with translated_errors(), table_cache.begin() as connection:
                registration = _registered(connection, declared, target, marker_first=table_cache.marker_first)
                record_registration(connection, registration, principal.key_id, _BY)
        except _Raced:
            continue
        table_cache.forget_table(target)
        if registration.outcome is RegistrationOutcome.UNCHANGED:
            return None
        log.info("table_registered", table=str(target), outcome=registration.outcome, by=_BY)
        return Registered(str(target), str(registration.outcome))
    raise TemporarilyUnavailable(Code.TABLE_BUSY, "other requests keep registering the table")


def _registered(connection: Connection, declared: Declaration, name: TableName, *, marker_first: bool) -> Registration:
    present = find_locked_table(connection, name)
    wanted = declared.schema if present is None else declared.added_to(present.schema, present.left_columns)
    registration = register_table(connection, name, wanted, marker_first=marker_first)
    if registration.table.name != name:
        raise RejectedInput(Code.SOURCE_CASE_MISMATCH, case_detail(SourceName.address(name), registration.table))
    if present is None and registration.outcome not in {RegistrationOutcome.CREATED, RegistrationOutcome.UNCHANGED}:
        raise _Raced
    return registration
