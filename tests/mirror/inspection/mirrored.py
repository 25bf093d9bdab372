"""Writes Delta tables as the mirror commits them, for tests that need no landing zone."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from app.mirror.target import MirrorTarget
from app.published.table_files import PublishedTable

Row: TypeAlias = tuple[Any, ...]

KEYS = ("id",)
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


class Mirrored:
    """One mirrored table: each call of `commit` is one landing file."""

    def __init__(
        self, root: Path, name: str = "s.t", *, schema: pa.Schema = SCHEMA, keys: tuple[str, ...] = KEYS
    ) -> None:
        self.target, self.name, self.schema, self.keys = MirrorTarget(str(root)), name, schema, keys
        self.uri = self.target.uri(
            PublishedTable(*name.split(".", 1), "") if "." in name else PublishedTable(None, name, "")
        )
        self.file = 0

    def commit(self, rows: Sequence[Row] = (), deleted: Sequence[Row] = (), *, files: int = 1) -> int:
        """Delete the rows of the keys, append the rows, and return the new version."""
        first, self.file = self.file + 1, self.file + files
        new = self._table(rows, self.schema)
        properties = self._properties(first, len(deleted), len(rows))
        if DeltaTable.is_deltatable(self.uri) and deleted:
            self._merge(new, deleted, properties)
        else:
            Path(self.uri).parent.mkdir(parents=True, exist_ok=True)
            write_deltalake(self.uri, new, mode="append", schema_mode="merge", commit_properties=properties)
        return self.delta().version()

    def delta(self, version: int | None = None) -> DeltaTable:
        return DeltaTable(self.uri, version=version)

    def _merge(self, new: pa.Table, deleted: list[tuple[Any, ...]], properties: CommitProperties) -> None:
        keys = self._table(deleted, pa.schema([self.schema.field(key) for key in self.keys]))
        source = pa.concat_tables(
            [
                new.append_column("__d", pa.array([False] * new.num_rows)),
                keys.append_column("__d", pa.array([True] * keys.num_rows)),
            ],
            promote_options="default",
        )
        quoted = {name: '"' + name.replace('"', '""') + '"' for name in self.schema.names}
        same = " AND ".join(f"t.{quoted[key]} = s.{quoted[key]}" for key in self.keys)
        (
            self.delta()
            .merge(source, f"{same} AND s.__d", source_alias="s", target_alias="t", commit_properties=properties)
            .when_matched_delete()
            .when_not_matched_insert({one: f"s.{one}" for one in quoted.values()}, predicate="NOT s.__d")
            .execute()
        )

    def _table(self, rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
        columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
        return pa.table(columns, schema=schema)

    def _properties(self, first: int, deleted: int, appended: int) -> CommitProperties:
        metadata = {
            "mirrorgate.files": f"{first}-{self.file}",
            "mirrorgate.generation": "1",
            "mirrorgate.rows": json.dumps({"0": appended, "1": 0, "2": deleted, "4": 0}),
            "mirrorgate.deleted_keys": str(deleted),
            "mirrorgate.appended_rows": str(appended),
            "mirrorgate.key_columns": json.dumps(self.keys),
        }
        return CommitProperties(custom_metadata=metadata, app_transactions=[Transaction("mirrorgate", self.file)])
