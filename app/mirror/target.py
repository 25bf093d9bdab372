"""Where the mirror's Delta tables are: a folder, ADLS Gen2, OneLake or S3, at `<to>/<schema>/<table>`."""

import glob
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from app.mirror.object_store.store_options import store_options
from app.mirror.object_store.table_listing import remote_tables
from app.mirror.table_path import KEPT, table_name, table_path, table_paths
from app.published.table_folders import PublishedTable

LOG_FOLDER: Final = "_delta_log"


@dataclass(frozen=True, slots=True)
class MirrorTarget:
    """The root of mirrored tables, and the options that deltalake needs to reach it. It pickles, for executors."""

    location: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The options that were given; they can have secrets."""

    @property
    def is_remote(self) -> bool:
        """Whether the target is an object store."""
        return "://" in self.location

    def open_options(self) -> dict[str, str] | None:
        """Return the options for one opening of a table, as `store_options`."""
        return store_options(self.location, self.storage_options)

    def uri(self, table: PublishedTable, *, generation: int | None = None) -> str:
        """Return the address of a table; with `generation`, of one that is kept beside it."""
        return self._at(table_path(table, generation))

    def _at(self, path: str) -> str:
        return f"{self.location.rstrip('/')}/{path}"

    def open(self, table: PublishedTable | str, *, version: int | None = None) -> DeltaTable | None:
        """Open a table at its last or the given version; None if there is none.

        A name is `schema.name` or `name`, with `@g1` for a kept generation. A name with a dot can be either.

        Raise deltalake's DeltaError, also for a version that does not exist, and OSError if the store fails.
        """
        paths = [table_path(table)] if isinstance(table, PublishedTable) else table_paths(table)
        opened = (self.open_at(self._at(path), version=version) for path in paths)
        return next((delta for delta in opened if delta is not None), None)

    def open_at(self, uri: str, *, version: int | None = None) -> DeltaTable | None:
        """Open the Delta table at an address, as `open`."""
        if not self.is_remote and not (Path(uri) / LOG_FOLDER).is_dir():
            return None
        try:
            return DeltaTable(uri, version=version, storage_options=self.open_options())
        except TableNotFoundError:
            return None

    def tables(self) -> list[str]:
        """Return the names of the Delta tables in the target, kept generations (`name@g1`) included, sorted."""
        found = remote_tables(self.location, self.open_options() or {}) if self.is_remote else self._local_tables()
        return sorted(table_name(path) for path in found)

    def kept_generations(self, table: PublishedTable) -> list[int]:
        """Return the generations of a table that are kept beside it. In an object store, none is ever moved."""
        if self.is_remote:
            return []
        place = Path(self.uri(table))
        beside = place.parent.glob(f"{glob.escape(place.name)}{KEPT}*")
        found = (path.name.removeprefix(f"{place.name}{KEPT}") for path in beside)
        return sorted(int(number) for number in found if number.isascii() and number.isdigit())

    def _local_tables(self) -> list[str]:
        root = Path(self.location)
        one, two = root.glob(f"*/{LOG_FOLDER}"), root.glob(f"*/*/{LOG_FOLDER}")
        return [log.parent.relative_to(root).as_posix() for log in (*one, *two)]
