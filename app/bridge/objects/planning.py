"""Decide from a listing and a mark which objects are read next, and what is wrong with the others. Pure.

Rules, in the words of docs/object-storage.md:

- By name, an object that sorts before the mark was read. One that was not there before, or was modified after the last
  object that was read, is *late*.
- By time, the order is that of modification time and name. A rewritten object is a new one.
- An object that was read and has another ETag since has *changed*. A partly read object may change behind the durable
  messages only, which the reader checks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from app.client.file_content import Mark, digest_of
from app.client.file_paths import FileOrder, sort_key
from app.client.folder import Found


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with the objects of a table."""

    pending: tuple[Found, ...]
    """The objects to read, in order; first the one that was partly read."""
    late: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: str | None = None
    """The partly read object, if it was deleted."""
    is_lost: bool = False
    """The mark has only the beginning of its key, and no object fits it."""


def resolved(mark: Mark | None, listed: Iterable[Found]) -> Mark | None:
    """Return the mark with its whole key, if the position had to be cut and a listed object fits it."""
    if mark is None or mark.key_hash is None:
        return mark
    for found in listed:
        if mark.is_of(found.key):
            return replace(mark, key=found.key, key_hash=None)
    return mark


def start_after(mark: Mark | None, order: FileOrder) -> str | None:
    """Return the key after which a listing may start; None if it has to be complete."""
    if mark is None or order is not FileOrder.NAME:
        return None
    if mark.next_message is None and mark.key_hash is None:
        return mark.key
    return mark.key[:-1] or None


def plan(
    listed: Iterable[Found], mark: Mark | None, order: FileOrder, known: Mapping[str, str], *, first: bool
) -> Plan:
    """Plan the objects of a table.

    `known` has the ETag hash of each object that this process has listed before. `first` says that no complete listing
    was made yet: then an object before the mark that is not known was read by an earlier process, unless it is newer.
    """

    def place(found: Found) -> tuple[int, str]:
        return sort_key(order, found.key, found.modified)

    objects = sorted(listed, key=place)
    mark = resolved(mark, objects)
    if mark is None:
        return Plan(tuple(objects))
    if mark.key_hash is not None:
        return Plan((), is_lost=True)
    at = sort_key(order, mark.key, mark.newest)
    pending, late, changed = [], [], []
    partly: Found | None = None
    for found in objects:
        is_rewritten = order is FileOrder.MODIFIED and found.modified > mark.newest
        if found.key == mark.key and mark.next_message is not None:
            partly = found
        elif found.key == mark.key and not is_rewritten:
            if digest_of(found.etag) != mark.etag:
                changed.append(found.key)
        elif place(found) > at:
            pending.append(found)
        elif (etag := known.get(found.key)) is not None:
            if etag != digest_of(found.etag):
                changed.append(found.key)
        elif not first or found.modified > mark.newest:
            late.append(found.key)
    gone = mark.key if mark.next_message is not None and partly is None else None
    return Plan((*((partly,) if partly else ()), *pending), tuple(late), tuple(changed), gone)
