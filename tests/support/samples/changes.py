"""Changes in one line; their images are at `/before` and `/after`, as in Arcion messages."""

from collections.abc import Sequence

from app.domain.model.change import Change, Image, Operation
from app.domain.model.table_schema import TableSchema
from app.domain.rows.row_rules import Shape, ShapedChanges, Values


def insert(after: Image, index: int = 0) -> Change:
    return change(Operation.INSERT, None, after, index)


def update(before: Image | None, after: Image, index: int = 0) -> Change:
    return change(Operation.UPDATE, before, after, index)


def delete(before: Image, index: int = 0) -> Change:
    return change(Operation.DELETE, before, None, index)


def upsert(after: Image, index: int = 0) -> Change:
    return change(Operation.UPSERT, None, after, index)


def change(operation: Operation, before: Image | None, after: Image | None, index: int = 0) -> Change:
    return Change(index, operation, before, after, "/before", "/after")


def shaped(changes: Sequence[Change], schema: TableSchema) -> ShapedChanges:
    """Return the changes of a request as columnar decoders yield them."""

    def names(image: Image | None) -> frozenset[str] | None:
        return None if image is None else frozenset(image)

    def values(image: Image | None) -> Values | None:
        return None if image is None else tuple(map(image.get, schema.names))

    shapes = [
        Shape(
            change.operation,
            names(change.before),
            names(change.after),
            source_columns=change.source_columns,
            is_late=change.is_late,
        )
        for change in changes
    ]
    one_of = {shape: shape for shape in shapes}
    return ShapedChanges(
        [one_of[shape] for shape in shapes],
        [values(change.before) for change in changes],
        [values(change.after) for change in changes],
        ends_transaction=changes[-1].ends_transaction if changes else True,
        source_position=next((change.source_position for change in reversed(changes) if change.source_position), None),
    )
