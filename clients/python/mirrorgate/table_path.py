"""Paths of the API that have the name of a table, which can have characters with a meaning in an address."""

from urllib.parse import quote


def table_path(name: str) -> str:
    """Return the path of a table; a name such as `a#b` or `größe` is escaped."""
    return f"/v1/tables/{quote(name, safe='')}"
