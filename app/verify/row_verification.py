"""The row checks of one table over its files, continued from round to round.

Row checks remember what earlier files did, so files can only be added to them. If a file that they have seen changes,
or a new one comes before it, they start again with the first file.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from app.landing.zone import LandingZone
from app.published.table_folders import PublishedTable
from app.published.table_metadata import TableMetadata
from app.verify.checked_file import CheckedFile
from app.verify.finding import Finding
from app.verify.guard import guarded
from app.verify.row_checks import RowCheckFactory, RowChecks


class RowVerification:
    """Gives each file of a table to its row checks, once."""

    def __init__(self, zone: LandingZone, table: PublishedTable, factories: Sequence[RowCheckFactory]) -> None:
        self._zone, self._table, self._factories = zone, table, factories
        self._metadata: TableMetadata | None = None
        self._checks: list[RowChecks] = []
        self._seen: dict[str, CheckedFile] = {}
        self._findings: dict[str, tuple[Finding, ...]] = {}

    def run(
        self, metadata: TableMetadata | None, files: Sequence[CheckedFile], done: Callable[[int], None]
    ) -> Iterator[Finding]:
        """Yield the findings about the rows of these files, in order; read only the new files."""
        if metadata != self._metadata or not self._continues(files):
            self.close()
        if not self._checks:
            self._metadata = metadata
            for factory in self._factories:
                yield from self._guarded(partial(self._open, factory), "rows")
        for position, file in enumerate(files):
            done(position)
            name = file.file.name
            if name not in self._seen:
                self._seen[name] = file
                self._findings[name] = tuple(self._add(file))
            yield from self._findings[name]
        for checks in self._checks:
            yield from self._guarded(checks.finish, "rows")

    def close(self) -> None:
        """Free what the checks hold, and forget what they have seen."""
        for checks in self._checks:
            checks.close()
        self._checks, self._seen, self._findings = [], {}, {}

    def _continues(self, files: Sequence[CheckedFile]) -> bool:
        """Return whether the files that were seen are unchanged and come before all others; some may be gone."""
        names = [file.file.name for file in files]
        known = [name for name in self._seen if name in set(names)]
        unchanged = all(self._seen[file.file.name] is file for file in files if file.file.name in self._seen)
        return unchanged and names[: len(known)] == known

    def _open(self, factory: RowCheckFactory) -> Iterator[Finding]:
        self._checks.append(factory(self._zone, self._table, self._metadata))
        return iter(())

    def _add(self, file: CheckedFile) -> Iterator[Finding]:
        for checks in self._checks:
            yield from self._guarded(partial(checks.add_file, file), "rows", file.file.path)

    def _guarded(self, run: Callable[[], Iterator[Finding]], name: str, file: str | None = None) -> Iterator[Finding]:
        return guarded(run, name, table=str(self._table), file=file)
