"""Routes each message by a value that it has, as the parameter `table_from` says.

Replicate's data messages do not name their table. What users add is a column with the table's name, by a global
transformation rule (Qlik's article "How to add tables name in Kafka"), or a value elsewhere in the message.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from app.domain.model.source_name import SourceName
from app.errors import Code, RejectedInput
from app.errors.json_pointer import pointer_to
from app.formats.replicate.forms.places import Place
from app.formats.replicate.forms.standard_form import rejection

_COLUMN: Final = "data."


class TableFrom(NamedTuple):
    """Where messages name their table: in a column of the row, or at a place of the message."""

    written: str
    column: str | None
    place: Place | None

    @classmethod
    def parse(cls, written: str) -> "TableFrom":
        """Read `data.<column>`, a JSON Pointer or names with dots. Raises RejectedInput `bad_request`."""
        if written.startswith(_COLUMN) and len(written) > len(_COLUMN):
            return cls(written, written.removeprefix(_COLUMN), None)
        try:
            place = Place.parse(written)
        except ValueError as reason:
            raise RejectedInput(Code.BAD_REQUEST, f"table_from is not a place in a message: {reason}") from None
        if place.prefix is not None or not place.steps:
            raise RejectedInput(Code.BAD_REQUEST, "table_from must be data.<column> or a place without *")
        return cls(written, None, place)

    @property
    def columns(self) -> frozenset[str]:
        """The column that is data only if the table has it."""
        return frozenset() if self.column is None else frozenset({self.column})

    def source(
        self, message: Mapping[str, Any], row: Mapping[str, Any], row_at: str, index: int, at: str
    ) -> SourceName:
        """Return the table of a message: `name` or `schema.name`. `row` is its image and `row_at` its JSON Pointer.

        Raises RejectedInput `malformed_message` if it has no text there, or `bad_name`.
        """
        if self.place is None:
            found, pointer = row.get(self.column or "", UNSET), pointer_to(row_at, self.column or "")
        else:
            found, pointer = self.place.find(message, index, at), at + self.place.pointer
        if not isinstance(found, str) or not found:
            detail = "table_from names this place for the table of the message, and it has no text there"
            raise rejection(Code.MALFORMED_MESSAGE, detail, index, pointer)
        schema, dot, name = found.partition(".")
        try:
            if dot and schema and name and "." not in name:
                return SourceName.of(None, schema, name)
            return SourceName.of(None, None, found)
        except RejectedInput as error:
            raise rejection(error.code, error.detail, index, pointer) from None
