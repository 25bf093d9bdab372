"""What Fabric does with a landing zone: take files in order, clean up, and report its progress in tables.json.

It looks at every change of the tree as it happens. It does not forgive: what would stop a table in Fabric, or
what no publisher may do, is a problem, and `check` raises for it.
"""

import io
import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mirrorgate_zone.emulator.onelake import OneLake
from mirrorgate_zone.emulator.storage_tree import Node

PROCESSED = "_ProcessedFiles"
_FILE = re.compile(r"(\d{20})\.parquet", re.ASCII)


@dataclass
class MirroredTable:
    """One lifetime of a table folder, as the mirror has taken it in."""

    folder: str
    identity: str
    metadata: dict[str, Any] | None = None
    consumed: int = 0
    digests: dict[int, str] = field(default_factory=dict)
    """Content of each number when it was first seen."""
    removed: set[int] = field(default_factory=set)
    """Numbers that were moved away."""
    types: dict[str, pa.DataType] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    """Columns that were not nullable, so that no later file may lack them."""
    files: list[list[dict[str, Any]]] = field(default_factory=list)
    """Rows of each consumed file."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for rows in self.files for row in rows]


class Mirror:
    """Mirrors one endpoint. `eager`: a file is consumed the moment it is visible; else `consume` says when.

    Consumed files are moved to `_ProcessedFiles`, all but the last; with `purges` they are deleted instead.
    """

    def __init__(self, endpoint: OneLake, *, eager: bool = True, purges: bool = False) -> None:
        self._endpoint, self._tree = endpoint, endpoint.tree
        self._eager, self._purges = eager, purges
        self.tables: dict[str, MirroredTable] = {}
        self.dropped: list[MirroredTable] = []
        """Lifetimes that have ended, because the folder went or another took its place."""
        self.problems: list[str] = []
        self._tree.on_change = self._look

    def check(self) -> None:
        """Raise AssertionError for everything that Fabric would have stumbled over."""
        assert not self.problems, "\n".join(self.problems)

    def consume(self, most: int = 1_000_000) -> None:
        """Take in up to `most` files of each table, then tidy up and write tables.json."""
        with self._tree.lock:
            self._look_at_tables()
            for table in self.tables.values():
                self._consume(table, most)
            self._write_status()

    def _look(self) -> None:
        if self._eager:
            self.consume()
        else:
            with self._tree.lock:
                self._look_at_tables()

    def _look_at_tables(self) -> None:
        folders = dict(self._folders())
        for name, table in list(self.tables.items()):
            if name not in folders or folders[name].identity != table.identity:
                self.dropped.append(self.tables.pop(name))
        for name, node in folders.items():
            table = self.tables.setdefault(name, MirroredTable(name, node.identity))
            self._look_at(table)

    def _folders(self) -> list[tuple[str, Node]]:
        """Table folders by name: `<name>`, or `<schema>.schema/<name>`; hidden names are none of ours."""
        found = []
        for path, node in self._tree.below(self._endpoint.landing_zone, recursive=False):
            name = path.rpartition("/")[2]
            if name.startswith("_") or not node.folder:
                continue
            if name.endswith(".schema"):
                inside = self._tree.below(path, recursive=False)
                found += [(f"{name}/{below.rpartition('/')[2]}", inner) for below, inner in inside if inner.folder]
            else:
                found.append((name, node))
        return found

    def _look_at(self, table: MirroredTable) -> None:
        """Check what is visible against what was seen before."""
        names = self._visible(table)
        metadata = self._metadata(table)
        numbers = {int(match[1]): node for name, node in names.items() if (match := _FILE.fullmatch(name))}
        strays = [name for name in names if not _FILE.fullmatch(name) and not name.startswith("_")]
        self._note(table, bool(strays), f"names that mirroring does not know: {strays}")
        self._note(table, bool(numbers) and metadata is None, "data before _metadata.json")
        if metadata is not None:
            keys = (table.metadata or {}).get("keyColumns")
            self._note(table, keys is not None and keys != metadata.get("keyColumns"), "keyColumns changed")
            table.metadata = metadata
        for number, node in sorted(numbers.items()):
            digest = sha256(node.content).hexdigest()
            self._note(table, not node.content, f"file {number} is empty")
            self._note(table, number in table.removed, f"number {number} came back after it was consumed and moved")
            self._note(table, table.digests.setdefault(number, digest) != digest, f"file {number} was changed")
        highest = max(table.digests, default=0)
        missing = sorted(set(range(1, highest + 1)) - table.digests.keys())
        self._note(table, bool(missing), f"a gap: {missing} are missing before {highest}")
        vanished = [n for n in table.digests if n not in numbers and n not in table.removed]
        self._note(table, bool(vanished), f"visible files went away: {vanished}")

    def _consume(self, table: MirroredTable, most: int) -> None:
        names = self._visible(table)
        while most > 0 and (node := names.get(f"{table.consumed + 1:020d}.parquet")) is not None:
            try:
                content = pq.read_table(io.BytesIO(node.content))
            except pa.ArrowInvalid as error:
                self._note(table, True, f"file {table.consumed + 1} is not whole Parquet: {error}")
                break
            self._take_types(table, content.schema)
            table.files.append(content.to_pylist())
            table.consumed += 1
            most -= 1
        for number in sorted(table.digests.keys() - table.removed):
            if number < table.consumed:
                self._move_away(table, number)

    def _take_types(self, table: MirroredTable, schema: pa.Schema) -> None:
        for column in schema:
            known = table.types.setdefault(column.name, column.type)
            self._note(table, known != column.type, f"column {column.name} was {known}, is {column.type}")
        required = {*(table.metadata or {}).get("keyColumns", []), *table.required}
        table.required |= {column.name for column in schema if not column.nullable}
        for name in sorted(required - set(schema.names)):
            self._note(table, True, f"column {name} is missing")
        self._note(table, schema.names[-1] != "__rowMarker__", "__rowMarker__ is not the last column")

    def _move_away(self, table: MirroredTable, number: int) -> None:
        name, folder = f"{number:020d}.parquet", self._path(table)
        if self._purges:
            self._tree.remove_inside(f"{folder}/{name}")
        else:
            self._tree.move_inside(f"{folder}/{name}", f"{folder}/{PROCESSED}/{name}")
        table.removed.add(number)

    def _write_status(self) -> None:
        entries = []
        for name, table in sorted(self.tables.items()):
            schema, _, bare = name.rpartition("/")
            entries.append(
                {
                    "sourceSchemaName": schema.removesuffix(".schema"),
                    "sourceTableName": bare,
                    "status": "Replicating",
                    "processedRowCount": len(table.rows),
                }
            )
        monitoring = self._endpoint.landing_zone.rpartition("/")[0] + "/Monitoring/tables.json"
        self._tree.write_inside(monitoring, json.dumps({"tables": entries}).encode())

    def _metadata(self, table: MirroredTable) -> dict[str, Any] | None:
        node = self._tree.get(f"{self._path(table)}/_metadata.json")
        if node is None:
            return None
        try:
            return dict(json.loads(node.content))
        except ValueError:
            self._note(table, True, "_metadata.json is not whole JSON")
            return None

    def _visible(self, table: MirroredTable) -> dict[str, Node]:
        path = self._path(table)
        return {name[len(path) + 1 :]: node for name, node in self._tree.below(path, recursive=False)}

    def _path(self, table: MirroredTable) -> str:
        return f"{self._endpoint.landing_zone}/{table.folder}"

    def _note(self, table: MirroredTable, wrong: bool, what: str) -> None:
        problem = f"{table.folder}: {what}"
        if wrong and problem not in self.problems:
            self.problems.append(problem)
