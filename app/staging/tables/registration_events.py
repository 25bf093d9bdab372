"""Records registrations: an event of the table for each change of its columns, an audit event for anything else."""

import sqlalchemy as sa

from app.domain.model.schema_change import schema_change
from app.staging.access.audit_events import record_operation
from app.staging.tables.events import record_event
from app.staging.tables.registration import Registration, RegistrationOutcome


def record_registration(
    connection: sa.Connection, registration: Registration, actor: str, by: str | None = None
) -> None:
    """Write what a registration did, once, in its transaction.

    `by` says what asked for it, if no caller did.
    """
    told = {} if by is None else {"by": by}
    table, before = registration.table, registration.before
    if before is not None and (changed := schema_change(before, table)):
        record_event(connection, table, actor, "change schema", details={**changed, **told})
    elif registration.outcome is not RegistrationOutcome.UNCHANGED:
        record_operation(connection, actor, "register_table", table.name, {"outcome": registration.outcome, **told})
