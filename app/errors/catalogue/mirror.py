"""Errors of the Delta mirror: its target, its tables and their versions, and queries over them."""

from collections.abc import Mapping
from typing import Final

from app.errors.catalogue.entry import Entry
from app.errors.codes import Code, Kind

MIRROR: Final[Mapping[Code, Entry]] = {
    Code.MIRROR_MISSING: Entry(
        Kind.MISCONFIGURED,
        "The target holds no mirrored table, or no target is known.",
        "Give the folder or address of the Delta tables with --to or MIRRORGATE_MIRROR_TARGET. `mirrorgate mirror run "
        "--once ZONE --to TARGET` makes the tables.",
    ),
    Code.MIRROR_AWAY: Entry(
        Kind.UNAVAILABLE,
        "The target of the mirror cannot be read or written now.",
        "The detail has the answer of the operating system or storage service. Repeat the command when the target is "
        "available again.",
    ),
    Code.UNKNOWN_VERSION: Entry(
        Kind.MISSING,
        "The table has no such version, no version at that time, or no version of that landing file.",
        "`mirrorgate mirror history TABLE` lists the versions of the table with their times and files.",
    ),
    Code.BAD_QUERY: Entry(
        Kind.INVALID,
        "The SQL is not valid, names an unknown table or column, or does more than read mirrored tables.",
        "Correct the SQL as the message says. A query reads mirrored tables only, by SELECT, in the SQL of DuckDB.",
    ),
}
