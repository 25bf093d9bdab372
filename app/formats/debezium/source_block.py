"""What the block `source` of an event says: the table that changed, and the position in the source's log."""

from collections.abc import Mapping
from typing import Any, Final

from app.domain.model.change import SourceTime
from app.domain.model.names import is_bounded
from app.domain.model.source_name import SourceName

_POSITION: Final = (
    "gtid",
    "file",
    "pos",
    "row",
    "lsn",
    "commit_lsn",
    "change_lsn",
    "event_serial_no",
    "scn",
    "commit_scn",
    "vgtid",
    "snapshot",
)
"""Members that make the position, in this order: MySQL, Postgres, SQL Server, Oracle, Vitess."""

_TIMES: Final = ("ts_ns", "ts_us", "ts_ms")
"""Members that have the time, the most exact one first."""

_NO_SNAPSHOT: Final = ("false", False)


def source_table(source: Mapping[str, Any]) -> SourceName | None:
    """Return the table as `schema.table`, or `database.table` where the source has no schemas.

    None if the block names no table. Raises RejectedInput `bad_name`.
    """
    table = _text(source, "table")
    if table is None:
        return None
    schema = _text(source, "schema") or _text(source, "db") or _text(source, "keyspace")
    return SourceName.of(None, schema, table)


def source_connector(source: Mapping[str, Any]) -> str | None:
    """Return the kind of the connector, such as `postgresql`; None if the block does not tell it."""
    return _text(source, "connector")


def source_position(source: Mapping[str, Any]) -> str | None:
    """Return the position as one text, such as `lsn=24023128 snapshot=last`; None if the block has none.

    A text longer than an index takes is left out: positions are for people, and no rule reads them.
    """
    parts = [
        f"{name}={'true' if value is True else value}"
        for name in _POSITION
        if isinstance(value := source.get(name), str | int)
        and value != ""
        and not (name == "snapshot" and value in _NO_SNAPSHOT)
    ]
    text = " ".join(parts)
    return text if text and is_bounded(text) else None


def source_time(source: Mapping[str, Any]) -> SourceTime:
    """Return when the source made the change, in the smallest unit that the block has."""
    for name in _TIMES:
        time = source.get(name)
        if isinstance(time, str | int) and not isinstance(time, bool):
            return time
    return None


def _text(source: Mapping[str, Any], name: str) -> str | None:
    value = source.get(name)
    return value if isinstance(value, str) and value else None
