"""Where the mirror's Delta tables are: a folder, ADLS Gen2, OneLake or S3, at `<to>/<schema>/<table>`."""

import glob
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from app.mirror.target_listing import remote_tables
from app.published.table_folders import PublishedTable

LOG_FOLDER: Final = "_delta_log"


@dataclass(frozen=True, slots=True)
class MirrorTarget:
    """The root of mirrored tables, and the options that deltalake needs to reach it. It pickles, for executors."""

    location: str
    storage_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_remote(self) -> bool:
        """Whether the target is an object store."""
        return "://" in self.location

    def uri(self, table: PublishedTable | str, *, generation: int | None = None) -> str:
        """Return the address of a table, by its name `schema.name` or `name`; with `generation`, of a kept one."""
        kept = "" if generation is None else f"@g{generation}"
        return f"{self.location.rstrip('/')}/{_path(table)}{kept}"

    def open(self, table: PublishedTable | str, *, version: int | None = None) -> DeltaTable | None:
        """Open a table at its last or the given version; None if there is none.

        Raise deltalake's DeltaError, also for a version that does not exist, and OSError if the store fails.
        """
        return self.open_at(self.uri(table), version=version)

    def open_at(self, uri: str, *, version: int | None = None) -> DeltaTable | None:
        """Open the Delta table at an address, as `open`."""
        if not self.is_remote and not (Path(uri) / LOG_FOLDER).is_dir():
            return None
        try:
            return DeltaTable(uri, version=version, storage_options=dict(self.storage_options) or None)
        except TableNotFoundError:
            return None

    def tables(self) -> list[str]:
        """Return the names of the Delta tables in the target, kept generations (`name@g1`) included, sorted."""
        found = remote_tables(self.location, self.storage_options) if self.is_remote else self._local_tables()
        return sorted(found)

    def kept_generations(self, table: PublishedTable) -> list[int]:
        """Return the generations of a table that are kept beside it. In an object store, none is ever moved."""
        if self.is_remote:
            return []
        place = Path(self.uri(table))
        found = (
            path.name.removeprefix(f"{place.name}@g") for path in place.parent.glob(f"{glob.escape(place.name)}@g*")
        )
        return sorted(int(number) for number in found if number.isascii() and number.isdigit())

    def _local_tables(self) -> list[str]:
        root = Path(self.location)
        one, two = root.glob(f"*/{LOG_FOLDER}"), root.glob(f"*/*/{LOG_FOLDER}")
        return [log.parent.name for log in one] + [f"{log.parent.parent.name}.{log.parent.name}" for log in two]


def _path(table: PublishedTable | str) -> str:
    if isinstance(table, PublishedTable):
        return f"{table.schema}/{table.name}" if table.schema else table.name
    return table.replace(".", "/", 1)
