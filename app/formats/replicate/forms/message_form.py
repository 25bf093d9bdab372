"""How to read the messages of a request: its parameters `keyed`, `layout` and `table_from`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.formats.replicate.forms.layouts import Layout, read_layout
from app.formats.replicate.forms.table_from import TableFrom


@dataclass(frozen=True, slots=True)
class MessageForm:
    """How to read the messages of a request, by its parameters."""

    keyed: bool | None = None
    """Whether elements are `{"key": …, "value": …}`; None: recognize them."""
    layout: Layout | None = None
    """The layout of data messages; None for the forms that Replicate writes by default."""
    table_from: TableFrom | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the form as it is stored with a dead letter; a layout as a whole, because it can change."""
        return {
            "keyed": self.keyed,
            "layout": self.layout and dict(self.layout.document),
            "table_from": self.table_from and self.table_from.written,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "MessageForm":
        """Read a stored form."""
        layout, table_from = stored.get("layout"), stored.get("table_from")
        return cls(
            stored.get("keyed"), layout and read_layout(layout), TableFrom.parse(table_from) if table_from else None
        )


STANDARD: Final = MessageForm()
