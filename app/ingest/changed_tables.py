"""Tables that change while or because a request is accepted.

Typing needs no lock, so a table can change its schema, options or generation before the sequence lock is taken. The
lock notices that (`TableMoved`) and nothing is staged; the next attempt sees the table as it is then.

A request can register its table: plain rows that declare columns, Debezium's Connect schemas, Replicate's metadata. A
registration takes effect in its own transaction and remains in effect, whether or not the changes are accepted. Sending
the request again repeats it without a change.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

import structlog

from app.domain.access.rights import Principal, Right
from app.domain.model.names import SourceName, TableName
from app.domain.model.table import Table, case_detail
from app.domain.model.table_schema import TableSchema
from app.formats.rows.declaration import Declaration
from app.ingest.parsed_request import Registered
from app.ingest.table_cache import TableCache
from app.staging.batches.batch import TableMoved
from app.staging.connection.database import Connection, translated_errors
from app.staging.tables.registration import (
    Registration,
    RegistrationOutcome,
    evolve_table,
    find_locked_table,
    record_registration,
    register_table,
)
from mirrorgate.errors import Code, RejectedInput, TemporarilyUnavailable

log = structlog.get_logger()


Result = TypeVar("Result")

MAX_ATTEMPTS: Final = 5
"""Attempts of one request; then its caller has to send it again."""


async def retry_moved(attempt: Callable[[], Awaitable[Result]]) -> Result:
    """Return the result of the first attempt that does not raise TableMoved.

    Raises TemporarilyUnavailable `table_busy` after the last attempt, and whatever else an attempt raises.
    """
    for _ in range(MAX_ATTEMPTS):
        try:
            return await attempt()
        except TableMoved:
            continue
    raise TemporarilyUnavailable(Code.TABLE_BUSY, "the tables of this request keep changing")


def give_marker(table: Table, table_cache: TableCache, principal: Principal) -> Table:
    """Give a table whose files have no row marker one, because its rows are not inserts. Raises TableMoved."""
    with translated_errors(), table_cache.begin() as connection:
        wanted = replace(table.schema, bare=False)
        registration = evolve_table(connection, table, wanted, marker_first=table_cache.marker_first)
        record_registration(connection, registration, principal.key_id, "changes")
    table_cache.forget_table(table.name)
    if registration.table.schema.bare:
        raise TableMoved
    return registration.table


_BY: Final = "rows"


def register(
    connection: Connection,
    table_cache: TableCache,
    principal: Principal,
    source: SourceName,
    wanted: TableSchema,
    by: str,
    **rows: Any,
) -> Registration:
    """Bring the table of a source's own name to a schema, and record it as asked for `by` what a request has.

    `rows` says what `register_table` has to know of the source's rows. Raises RejectedInput `source_case_mismatch` if
    another process has just registered a table whose name differs in letter case, and what `register_table` raises.
    """
    registration = register_table(connection, source.table, wanted, marker_first=table_cache.marker_first, **rows)
    if registration.table.name != source.table:
        raise RejectedInput(Code.SOURCE_CASE_MISMATCH, case_detail(source, registration.table))
    record_registration(connection, registration, principal.key_id, by)
    return registration


def log_registration(registration: Registration, by: str) -> None:
    """Log what a committed registration did, if it did anything."""
    if registration.outcome is not RegistrationOutcome.UNCHANGED:
        log.info("table_registered", table=str(registration.table.name), outcome=registration.outcome, by=by)


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
    for _ in range(MAX_ATTEMPTS):
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
                registration = _registered(connection, declared, target, table_cache, principal)
        except TableMoved:
            continue
        table_cache.forget_table(target)
        if registration.outcome is RegistrationOutcome.UNCHANGED:
            return None
        log_registration(registration, _BY)
        return Registered(str(target), str(registration.outcome))
    raise TemporarilyUnavailable(Code.TABLE_BUSY, "other requests keep registering the table")


def _registered(
    connection: Connection, declared: Declaration, name: TableName, table_cache: TableCache, principal: Principal
) -> Registration:
    """Register what is declared. Raises TableMoved if another request has registered the table meanwhile."""
    present = find_locked_table(connection, name)
    wanted = declared.schema if present is None else declared.added_to(present.schema, present.left_columns)
    registration = register(connection, table_cache, principal, SourceName.address(name), wanted, _BY)
    if present is None and registration.outcome not in {RegistrationOutcome.CREATED, RegistrationOutcome.UNCHANGED}:
        raise TableMoved
    return registration
