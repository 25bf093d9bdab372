"""Layouts of Replicate messages."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from app.api.schemas.common import Model
from app.ingest import MAX_OPERATION_CHARACTERS, MAX_OPERATIONS

_PLACE: Final = r"^((/[^/\x00-\x1f]+){1,9}|[^/.\x00-\x1f][^.\x00-\x1f]*(\.[^.\x00-\x1f]+){0,8})$"
"""What `Place.parse` accepts, and little else: the contract shows it, and the parser words what is wrong."""

Place = Annotated[str, Field(min_length=1, max_length=1_024, json_schema_extra={"pattern": _PLACE})] | None
_OPERATIONS: Final[dict[str, Any]] = {
    "maxProperties": MAX_OPERATIONS,
    "propertyNames": {"minLength": 1, "maxLength": MAX_OPERATION_CHARACTERS, "pattern": r"^[^\x00-\x1f]+$"},
}


class LayoutModel(Model):
    """Where messages of a custom format have what Replicate's messages have.

    A place is a JSON Pointer (`/payload/row`) or names with dots (`payload.row`). One that ends in `*` is all keys with
    that beginning: `headers_*` has the key `headers_operation` as `operation`, and `*` is every key that no other part
    has. A part that is not given is not read.

    A layout needs `data` or `before_data`, and `operation` or `headers`. Two parts cannot have the same place, and only
    `data`, `before_data`, `key` and `headers` can end in `*`.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "minProperties": 2,
            "examples": [
                {
                    "data": "payload.row",
                    "before_data": "payload.old",
                    "headers": "meta_*",
                    "operations": {"I": "insert", "U": "update", "D": "delete"},
                }
            ],
        }
    )

    data: Place = None
    """The row after the change; for a delete, the deleted row."""

    before_data: Place = None
    """The row before an update."""

    key: Place = None
    """The key of a deleted row without an image."""

    headers: Place = None
    """All headers together, by the names that Replicate gives them."""

    operation: Place = None
    """The operation. Needed without `headers`."""

    change_sequence: Place = None
    """The source position."""

    change_mask: Place = None
    """The mask of columns that changed."""

    column_mask: Place = None
    """The mask of columns that were captured."""

    external_schema_id: Place = None
    """The id that changes with the structure of the table."""

    transaction_last_event: Place = None
    """Whether the change is the last one of its transaction."""

    schema_id: Place = None
    """The id of the metadata that describes the message."""

    schema_: Annotated[Place, Field(alias="schema")] = None
    """The schema of the table."""

    table: Place = None
    """The name of the table."""

    operations: Annotated[
        dict[str, Literal["insert", "update", "delete", "refresh"]] | None, Field(json_schema_extra=_OPERATIONS)
    ] = None
    """Names of operations besides Replicate's own, in any letter case."""

    def document(self) -> dict[str, Any]:
        """Return the parts that are given."""
        return self.model_dump(by_alias=True, exclude_none=True)


class StoredLayoutModel(Model):
    """A layout and its name."""

    name: str
    layout: LayoutModel
    changed_at: datetime
    """When it was last changed."""

    changed_by: str | None = None
    """Who changed it last: the id of a key, or the subject of a token. Shown to callers who may change layouts."""


class LayoutsModel(Model):
    """All layouts by name."""

    layouts: list[StoredLayoutModel]
