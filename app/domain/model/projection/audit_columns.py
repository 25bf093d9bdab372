"""Audit columns: what the gateway knows of each change, as columns of the landing files (decision 0071)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.domain.model.names import check_new_column_name
from app.domain.model.projection.rejections import bad_option, named
from app.domain.model.table_schema import Column, ColumnType, TypeName


class History(StrEnum):
    """Whether files have the newest state of each row, or append a row for every change."""

    OFF = "off"
    APPEND_ONLY = "append_only"


class Deletes(StrEnum):
    """Whether a deleted row leaves the mirror, or stays in it with the audit column `deleted` true."""

    APPLY = "apply"
    FLAG = "flag"


class AuditValue(StrEnum):
    """What an audit column holds."""

    OPERATION = "operation"
    SOURCE_TIMESTAMP = "source_timestamp"
    SOURCE_POSITION = "source_position"
    ACCEPTED_AT = "accepted_at"
    ROW_ORDER = "row_order"
    DELETED = "deleted"


_TYPES: Final[Mapping[AuditValue, ColumnType]] = {
    AuditValue.OPERATION: ColumnType(TypeName.STRING),
    AuditValue.SOURCE_TIMESTAMP: ColumnType(TypeName.TIMESTAMP),
    AuditValue.SOURCE_POSITION: ColumnType(TypeName.STRING),
    AuditValue.ACCEPTED_AT: ColumnType(TypeName.TIMESTAMP),
    AuditValue.ROW_ORDER: ColumnType(TypeName.INT64),
    AuditValue.DELETED: ColumnType(TypeName.BOOLEAN),
}


@dataclass(frozen=True, slots=True)
class AuditColumns:
    """The names of the columns that the gateway fills; a column without a name does not exist."""

    operation: str | None = None
    """What happened: insert, snapshot, update, delete or upsert."""
    source_timestamp: str | None = None
    """When the source made the change."""
    source_position: str | None = None
    """The position of the change in the source's log, as the message gives it."""
    accepted_at: str | None = None
    """When the gateway accepted the change."""
    row_order: str | None = None
    """A number that grows from row to row."""
    deleted: str | None = None
    """True for a row that the source deleted."""

    @property
    def named(self) -> dict[AuditValue, str]:
        """The names of the columns that the table has, by what they hold."""
        return {value: name for value in AuditValue if (name := getattr(self, value)) is not None}

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns in the order of the files. All are nullable, so that they can be added later."""
        return tuple(Column(name, _TYPES[value]) for value, name in self.named.items())


NO_AUDIT_COLUMNS: Final = AuditColumns()


def check_audit_columns(audit: AuditColumns, history: History, deletes: Deletes, taken: set[str]) -> None:
    """Raise RejectedInput `bad_option` for a name that no new column can have, or that is taken by a folded name.

    Also for a column of deleted rows that nothing fills, or that is missing.
    """
    for value, name in audit.named.items():
        with named("audit_columns", value):
            check_new_column_name(name)
        if name.casefold() in taken:
            detail = f"another column is named {name!r} (letter case does not count)"
            raise bad_option(detail, "audit_columns", value)
        taken.add(name.casefold())
    if deletes is Deletes.FLAG and audit.deleted is None:
        raise bad_option("deletes=flag needs the name of a column, audit_columns.deleted", "deletes")
    if deletes is Deletes.FLAG and history is not History.OFF:
        raise bad_option("history=append_only has a row for every delete; it needs deletes=apply", "deletes")
    if deletes is Deletes.APPLY and history is History.OFF and audit.deleted is not None:
        detail = "no row that lands is a deleted one; deleted needs deletes=flag or history=append_only"
        raise bad_option(detail, "audit_columns", AuditValue.DELETED)
