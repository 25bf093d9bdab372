"""Find a mirrored table by its name and open it at a version or a time, with errors that say what exists.

Every command on mirrored tables starts here, so that a misspelled name, a version that is gone and a target that
cannot be read have the same answer everywhere. A time means the newest version that was committed at or before it, by
the commit times that `history` shows. The times of the log's files would change with each copy of the folder.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Final, TypeAlias

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, DeltaProtocolError

from app.mirror.inspection.history import read_history
from app.mirror.object_store import shown, store_error
from app.mirror.target import MirrorTarget
from mirrorgate.errors import Code, Misconfigured, RejectedInput

PointInTime: TypeAlias = int | datetime | None
"""A version, a time with its offset, or None for the newest version."""

MAX_NAMES_IN_ERRORS: Final = 8


def table_names(target: MirrorTarget) -> list[str]:
    """List the mirrored tables, sorted. Raises Misconfigured `mirror_missing` if the target has none."""
    with reading(target.location):
        names = sorted(target.tables())
    if not names:
        raise Misconfigured(Code.MIRROR_MISSING, f"{target.location} holds no Delta table")
    return names


def find_table(names: list[str], name: str) -> str:
    """Return the table that a user means by `name`, as `matching_tables`. Raises RejectedInput `unknown_table`."""
    matching = matching_tables(names, name)
    if not matching:
        raise unknown_table(names, name)
    if len(matching) > 1:
        raise RejectedInput(
            Code.UNKNOWN_TABLE,
            f"{name} can be several tables: {_listed(matching)}",
            remedy="Write the table with its schema, in exactly this letter case.",
        )
    return matching[0]


def matching_tables(names: list[str], name: str) -> list[str]:
    """Return the tables that `name` can mean: `schema.table`, else `table` of any schema.

    Letter case matters only between tables that differ in nothing else.
    """
    wanted = name.casefold()
    exact = [known for known in names if known == name]
    folded = [known for known in names if known.casefold() == wanted]
    return exact or folded or [known for known in names if known.partition(".")[2].casefold() == wanted]


def unknown_table(names: list[str], name: str) -> RejectedInput:
    """Return the error for a table that the mirror does not have, with the nearest names."""
    folded = {form.casefold(): known for known in names for form in (known, known.rpartition(".")[2])}
    near = [folded[form] for form in get_close_matches(name.casefold(), folded, n=3)]
    hint = f"; the nearest: {_listed(list(dict.fromkeys(near)))}" if near else ""
    return RejectedInput(
        Code.UNKNOWN_TABLE, f"the mirror has no table {name}{hint}", remedy=f"The mirror has: {_listed(names)}."
    )


def open_table(target: MirrorTarget, name: str, at: PointInTime = None) -> DeltaTable:
    """Open a table that `find_table` found. Raises RejectedInput `unknown_version` if it has no version at `at`."""
    with reading(name):
        table = target.open(name)
    if table is None:
        raise unknown_table(table_names(target), name)
    version = _version_at(target, table, name, at)
    if version == table.version():
        return table
    try:
        table.load_as_version(version)
    except (DeltaError, OSError) as error:
        raise RejectedInput(
            Code.UNKNOWN_VERSION, f"the log of {name} no longer has version {version}: {shown(error)}"
        ) from error
    return table


def _version_at(target: MirrorTarget, table: DeltaTable, name: str, at: PointInTime) -> int:
    """Return the version number of a point in time. Raises RejectedInput `unknown_version`."""
    newest = table.version()
    if at is None:
        return newest
    if isinstance(at, int):
        if not 0 <= at <= newest:
            raise RejectedInput(Code.UNKNOWN_VERSION, f"{name} has no version {at}: its newest version is {newest}")
        return at
    with reading(name):
        history = read_history(target, table)
    for entry in history:
        if entry.time <= at:
            return entry.version
    first = f": its first version is of {history[-1].time.isoformat()}" if history else ""
    raise RejectedInput(Code.UNKNOWN_VERSION, f"{name} has no version as old as {at.isoformat()}{first}")


def parse_point(text: str) -> int | datetime:
    """Read a version number or an ISO 8601 time. A time without an offset is UTC. Raises ValueError."""
    if text.isascii() and text.isdigit():
        return int(text)
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Translate faults of the target. Raises TemporarilyUnavailable `mirror_away`, or `unknown_version` for lost files.

    A data file that the log names and the target lacks was removed by a vacuum. A table with Delta features that
    deltalake cannot read as Arrow, such as deletion vectors, is `bad_query`.
    """
    try:
        yield
    except BrokenPipeError:  # the reader of this program's output has enough, as in `… | head`
        raise
    except FileNotFoundError as error:
        raise RejectedInput(
            Code.UNKNOWN_VERSION,
            f"{what}: a data file of this version was removed, as a vacuum does: {shown(error)}",
            remedy="Choose a version within the retention of `mirrorgate mirror vacuum`.",
        ) from error
    except DeltaProtocolError as error:
        raise RejectedInput(
            Code.BAD_QUERY,
            f"{what}: {shown(error)}",
            remedy="Read it with Spark or Fabric's SQL endpoint. `mirror history` and `mirror health` can read it.",
        ) from error
    except (DeltaError, OSError) as error:
        raise store_error(what, error) from error


def _listed(names: list[str]) -> str:
    more = len(names) - MAX_NAMES_IN_ERRORS
    return ", ".join(names[:MAX_NAMES_IN_ERRORS]) + (f" and {more:,} more" if more > 0 else "")
