"""What the checks of one table see: its folder, its metadata and its readable files, at one moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.landing.zone import Entry
from app.published.table_files import DataFile, TableFiles
from app.published.table_folders import PublishedTable
from app.published.table_metadata import TableMetadata
from app.verify.checked_file import CheckedFile
from app.verify.codes import FindingCode
from app.verify.finding import Finding


@dataclass(frozen=True, slots=True)
class TableView:
    """A table at the moment of its listing."""

    table: PublishedTable
    entries: Mapping[str, Entry]
    """What is at each path below the table folder and below the folders of consumed files, by path in the zone."""
    files: TableFiles
    metadata: TableMetadata | None
    """None for metadata that is missing or damaged."""
    damage: str | None
    """Why there is no metadata."""
    checked: Sequence[CheckedFile]
    """The readable files in the order in which they are applied; empty before they are read."""
    now: datetime

    def finding(self, code: FindingCode, detail: str, file: str | None = None) -> Finding:
        """Return a finding about the table, or about a file of it, given by its path."""
        return Finding(code, detail, str(self.table), file)

    def ordered_files(self) -> list[DataFile]:
        """Return all data files in the order in which they are applied: by number, then by time and name."""
        by_time = self.metadata is not None and self.metadata.is_ordered_by_time
        numbered = [*self.files.numbered.values()]
        others = [*self.files.unnumbered]
        if by_time:
            numbered, others = [], numbered + others
        return numbered + sorted(others, key=lambda file: (self.modified(file) or self.now, file.name))

    def modified(self, file: DataFile) -> datetime | None:
        """Return when a file was last changed, None if the store does not say."""
        entry = self.entries.get(file.path)
        return None if entry is None else entry.modified
