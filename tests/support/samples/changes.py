"""Changes in one line; their images are at `/before` and `/after`, as in Arcion messages."""

from app.domain.model.change import Change, Image, Operation


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
