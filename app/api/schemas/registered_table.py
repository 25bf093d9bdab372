"""Answers to registrations: the table, and what the registration has changed or would change."""

from typing import Any

from pydantic import Field

from app.api.schemas.common import Model
from app.api.schemas.status import TableModel
from app.domain.model.table_options import DEFAULT_OPTIONS
from app.domain.model.table_schema import TableSchema
from app.staging.tables.registration import Registration, RegistrationOutcome


class AddedColumnModel(Model):
    """A column that a table gets."""

    name: str
    """The name of the column."""

    type: str
    """The column type."""

    nullable: bool
    """True if rows can have NULL in the column."""


class OptionChangeModel(Model):
    """An option that a table gets, as it was before; for a new table: the default of new tables."""

    option: str
    """The name of the option."""

    before: Any
    """Value before the change."""

    after: Any
    """Value after the change."""


class RegistrationChangesModel(Model):
    """The changes that a registration makes, or would make."""

    outcome: RegistrationOutcome
    """Effect of the registration on the table."""

    key_columns: list[str]
    """The key, if the table gets one."""
    columns: list[AddedColumnModel]
    """Columns that the table gets."""
    nullable: list[str]
    """Columns that may be NULL from now on."""
    options: list[OptionChangeModel]
    """Options that change."""


class RegisteredTableModel(TableModel):
    """A table after its registration, or as a dry run would leave it."""

    changes: RegistrationChangesModel
    """Changes that the registration makes, or would make."""

    undeclared_columns: list[str] = Field(
        description="Columns of the table that the request left out of its columns. They remain in the files, and are "
        "NULL in rows that do not give them. To remove one, rebuild or recreate the table without it."
    )


def registered_table(
    status: TableModel, registration: Registration, declared: TableSchema | None
) -> RegisteredTableModel:
    """Return the answer to a registration that declared these columns."""
    table, before = registration.table, registration.before
    is_new = registration.outcome is RegistrationOutcome.CREATED
    old = table if before is None else before
    columns = {} if is_new else {column.name: column for column in old.schema.columns}
    key_columns = table.schema.key_columns if is_new or table.schema.key_columns != old.schema.key_columns else ()
    options = (DEFAULT_OPTIONS.of_new_table(table.schema, ()) if is_new else old.options).to_json()
    stored = table.schema.columns
    changes = RegistrationChangesModel(
        outcome=registration.outcome,
        key_columns=list(key_columns),
        columns=[
            AddedColumnModel(name=column.name, type=str(column.type), nullable=column.nullable)
            for column in stored
            if column.name not in columns
        ],
        nullable=[
            column.name for column in stored if column.nullable and not columns.get(column.name, column).nullable
        ],
        options=[
            OptionChangeModel(option=name, before=options[name], after=value)
            for name, value in table.options.to_json().items()
            if value != options[name]
        ],
    )
    spoken_of = {*(table.schema if declared is None else declared).names, *table.options.exclude}
    undeclared = [name for name in table.schema.names if name not in spoken_of]
    return RegisteredTableModel(**dict(status), changes=changes, undeclared_columns=undeclared)
