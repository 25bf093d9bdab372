"""What the mirror sees of one table before it applies anything: the zone's files, and how far the Delta table is."""

from dataclasses import dataclass

from deltalake import DeltaTable

from app.domain.mirror.table_report import FolderOwner
from app.errors import Code, InvariantBroken
from app.landing.folder_marker import FolderMarker, read_marker
from app.landing.zone import LandingZone, PathKind
from app.mirror.delta_columns import Column, known_columns
from app.mirror.generations import fingerprint, generation_of
from app.mirror.position import Position, read_position
from app.mirror.target import MirrorTarget
from app.published.table_files import DataFile, TableFiles, list_files
from app.published.table_folders import SCHEMA_SUFFIX, PublishedTable
from app.published.table_metadata import TableMetadata, read_metadata


@dataclass(frozen=True, slots=True)
class TableView:
    """One table in the zone and in the target, at one moment."""

    table: PublishedTable
    files: TableFiles
    metadata: TableMetadata
    delta: DeltaTable | None
    """The Delta table; None before the first commit of the folder's generation."""
    position: Position
    """How far `delta` is; file 0 without one."""
    ended: Position | None
    """The position of a Delta table that is still there, of a generation that has ended."""
    owner: FolderOwner | None
    """The gateway's table whose folder this is."""
    first_file: int
    """The fingerprint of the folder's file 1; 0 without one, and for an owned folder after the first commit."""

    def columns(self) -> list[Column]:
        """Return the columns of the Delta table, none without one."""
        return [] if self.delta is None else known_columns(self.delta)

    def pending(self) -> list[DataFile]:
        """Return the files that follow the position without a gap."""
        number, found = self.position.file_number + 1, []
        while number in self.files.numbered:
            found.append(self.files.numbered[number])
            number += 1
        return found

    def waiting(self) -> list[DataFile]:
        """Return every file after the position, behind a gap or not."""
        return [file for number, file in self.files.numbered.items() if number > self.position.file_number]

    def require_order(self) -> None:
        """Raise InvariantBroken `landing_order_unsupported` if the order of the files is not their numbers."""
        if self.metadata.is_ordered_by_time and (self.files.numbered or self.files.unnumbered):
            raise InvariantBroken(Code.LANDING_ORDER_UNSUPPORTED, f"table {self.table} orders its files by update time")
        if self.metadata.is_partitioned:
            raise InvariantBroken(
                Code.LANDING_ORDER_UNSUPPORTED,
                f"table {self.table} has its files in folders of partitions, each numbered separately",
                remedy="Remove `isPartitionEnabled`, and write all files into the table folder.",
            )
        if self.files.unnumbered and not self.files.numbered:
            raise InvariantBroken(
                Code.LANDING_ORDER_UNSUPPORTED,
                f"the names of the {len(self.files.unnumbered)} data files of table {self.table} are not numbers",
            )


def view_table(zone: LandingZone, target: MirrorTarget, table: PublishedTable) -> TableView:
    """Look at a table. Raise UnreadableMetadata, InvariantBroken `mirror_target_foreign`, or OSError."""
    files = list_files(zone, table)
    metadata = read_metadata(zone, table)
    delta = target.open(table)
    found = None if delta is None else read_position(delta)
    if delta is not None and found is None:
        raise InvariantBroken(Code.MIRROR_TARGET_FOREIGN, f"the target has a Delta table {table} of another writer")
    if delta is None:
        _require_own_folder(zone, target, table)
    read = read_marker(zone, table.folder)
    marker = read if isinstance(read, FolderMarker) else None
    first_file = fingerprint(zone, files.numbered[1]) if 1 in files.numbered else 0
    generation = generation_of(
        zone, marker, files, found, first_file=first_file, kept=[] if found else target.kept_generations(table)
    )
    owner = None if marker is None else FolderOwner(marker.installation_id, marker.generation)
    if found is not None and found.generation == generation:
        return TableView(table, files, metadata, delta, found, None, owner, first_file)
    return TableView(table, files, metadata, None, Position(generation, 0), found, owner, first_file)


def is_same_folder(zone: LandingZone, view: TableView) -> bool:
    """Return whether the folder still has the content that was looked at, and was not recreated meanwhile."""
    if view.owner is not None:
        marker = read_marker(zone, view.table.folder)
        if not isinstance(marker, FolderMarker) or marker.generation != view.owner.generation:
            return False
    return not view.first_file or fingerprint(zone, view.files.numbered[1]) == view.first_file


def _require_own_folder(zone: LandingZone, target: MirrorTarget, table: PublishedTable) -> None:
    """Raise InvariantBroken if the Delta table would lie inside another one, whose VACUUM would delete its files."""
    if table.schema is None:
        is_nested = zone.kind(f"{table.name}{SCHEMA_SUFFIX}") is PathKind.FOLDER
    else:
        is_nested = target.open(table.schema) is not None
    if is_nested:
        raise InvariantBroken(
            Code.MIRROR_TARGET_FOREIGN,
            f"table {table}: a table and a schema of one name would share a folder of the target",
            remedy="Rename the table or the schema at its publisher, or mirror one of them alone (--table).",
        )
