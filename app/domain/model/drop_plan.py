"""Drop plans: what follows the deletion of a table's folder.

Nothing, a new generation, one under a new name, or the generation that a rebuild has begun already.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.domain.model.names import TableName
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema


class DropAction(StrEnum):
    """Why the folder is deleted."""

    DROP = "drop"
    RECREATE = "recreate"
    RENAME = "rename"
    REBUILD = "rebuild"


@dataclass(frozen=True, slots=True)
class DropPlan:
    """Recorded when a drop begins, carried out when the folder is gone. None leaves an attribute as it is."""

    action: DropAction
    schema: TableSchema | None = None
    options: TableOptions | None = None
    new_name: TableName | None = None
    stays_paused: bool = False
    """True if the table was paused before its rebuild; the rebuild then pauses it again."""

    def to_json(self) -> dict[str, Any]:
        """Return the plan as it is stored."""
        plan: dict[str, Any] = {
            "action": self.action,
            "schema": self.schema and self.schema.to_json(),
            "options": self.options and self.options.to_stored(),
            "new_name": self.new_name and str(self.new_name),
        }
        return plan | ({"stays_paused": True} if self.stays_paused else {})

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "DropPlan":
        """Read a stored plan."""
        return cls(
            DropAction(stored["action"]),
            TableSchema.from_json(stored["schema"]) if stored["schema"] else None,
            TableOptions.parse(stored["options"]) if stored["options"] else None,
            TableName.parse(stored["new_name"]) if stored["new_name"] else None,
            stored.get("stays_paused", False),
        )
