"""The place of a Delta table below the target: `<schema>/<table>`, or `<table>` without a schema.

A name is a folder as it is, but for the characters that deltalake cannot have in a path (1.6 panics, or loses the
history) and for a name that ends like a kept generation. Those become `~` and two hexadecimal digits per byte of UTF-8.
"""

import re
from typing import Final

from app.published.table_folders import PublishedTable

KEPT: Final = "@g"
"""Separates the name of a table from the number of a kept generation."""

_UNSAFE: Final = re.compile(r"[#?\[\]^|\\%~\x00-\x1f\x7f]|@(?=g\d+$)", re.ASCII)
_KEPT_NAME: Final = re.compile(r"(.+)@g(\d{1,18})", re.ASCII | re.DOTALL)
_ESCAPED: Final = re.compile(r"(?:~[0-9a-f]{2})+", re.ASCII)


def table_path(table: PublishedTable, generation: int | None = None) -> str:
    """Return the path of a table; with `generation`, of one that is kept."""
    kept = "" if generation is None else f"{KEPT}{generation}"
    parts = [part for part in (table.schema, table.name) if part is not None]
    return "/".join(_UNSAFE.sub(_escape, part) for part in parts) + kept


def table_paths(name: str) -> list[str]:
    """Return the paths that a name can mean, the likeliest first.

    The first dot separates a schema or is part of the name. `@g1` at the end means a kept generation or is part of it.
    """
    schema, dot, rest = name.partition(".")
    tables = [PublishedTable(schema, rest, "")] if dot else []
    tables.append(PublishedTable(None, name, ""))
    return [path for table in tables for path in (*_kept_paths(table), table_path(table))]


def _kept_paths(table: PublishedTable) -> list[str]:
    found = _KEPT_NAME.fullmatch(table.name)
    return [table_path(PublishedTable(table.schema, found[1], ""), int(found[2]))] if found else []


def table_name(path: str) -> str:
    """Return the name of the table at a path: `schema.name` or `name`, with `@g1` for a kept generation."""
    return ".".join(_ESCAPED.sub(_unescape, part) for part in path.split("/"))


def _escape(found: re.Match[str]) -> str:
    return "".join(f"~{byte:02x}" for byte in found[0].encode())


def _unescape(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("~", "")).decode(errors="replace")
