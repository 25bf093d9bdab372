"""Records registrations: events of the table for its columns, masks, filter and names, audit events for the rest."""

from typing import Final

import sqlalchemy as sa

from app.domain.model.schema_change import schema_change
from app.domain.model.table_options import TableOptions
from app.staging.access.audit_events import record_operation
from app.staging.tables.events import record_event
from app.staging.tables.registration import Registration, RegistrationOutcome

ROW_RULES_CHANGED: Final = "change row rules"
"""The action of the event after which staged rows of a generation differ in what options did to them."""


def record_registration(
    connection: sa.Connection, registration: Registration, actor: str, by: str | None = None
) -> None:
    """Write what a registration did, once, in its transaction.

    `by` says what asked for it, if no caller did.
    """
    told = {} if by is None else {"by": by}
    table, before = registration.table, registration.before
    rules = [] if before is None else _changed_rules(before.options, table.options)
    if rules:
        record_event(connection, table, actor, ROW_RULES_CHANGED, details={"options": rules, **told})
    if before is not None and (changed := schema_change(before, table)):
        record_event(connection, table, actor, "change schema", details={**changed, **told})
    elif registration.outcome is not RegistrationOutcome.UNCHANGED:
        record_operation(connection, actor, "register_table", table.name, {"outcome": registration.outcome, **told})


def _changed_rules(before: TableOptions, after: TableOptions) -> list[str]:
    return [name for name in ("masks", "filter", "rename") if getattr(before, name) != getattr(after, name)]
