"""The history of a table's source: the versions that its metadata (MD) messages declared, as Postgres keeps them.

Versions are compared within one task, because each Replicate task numbers the versions of a table for itself. Earlier
versions remain readable, so that data messages sent before a change of the table still find their columns.

Renamed columns: metadata that drops a column of the table and adds one in its place.

Mirroring cannot rename a column. Treated as one column that left and one that was added, all earlier rows would keep
NULL under the new name.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema
from app.formats.replicate.metadata import SourceColumn, TableMetadata
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.json_pointer import pointer_to

MAX_EARLIER_VERSIONS: Final = 32
"""Versions kept besides the current one; bounded, because every MD message rewrites all of them."""

VersionId: TypeAlias = tuple[str | None, int, str | None]
"""Schema id, table version and task of an MD message."""


@dataclass(frozen=True, slots=True)
class SourceVersion:
    """The source table as one MD message described it, without columns if they were not recorded."""

    schema_id: str | None
    table_version: int
    columns: Mapping[str, SourceColumn]
    external_schema_id: str | None = None
    task: str | None = None
    """Server and name of the task that wrote the message."""
    source: str | None = None
    """The source's own name for the table, if it was recorded."""
    data_schema: str | None = None
    """The Avro schema of its data messages, if the message had one."""

    @classmethod
    def of(cls, entry: TableMetadata) -> "SourceVersion":
        """Return the version that an MD message describes."""
        names = {"task": entry.task, "source": str(entry.source), "data_schema": entry.data_schema}
        return cls(entry.schema_id, entry.table_version, entry.columns, **names)

    @property
    def identity(self) -> VersionId:
        """Schema id, table version and task."""
        return (self.schema_id, self.table_version, self.task)

    def is_same(self, other: "SourceVersion") -> bool:
        """Return True if one MD message declared both. External schema ids of its data are not compared."""
        return (self.identity, self.columns) == (other.identity, other.columns)

    def to_json(self) -> dict[str, Any]:
        """Return the version as it is stored."""
        return {
            "schema_id": self.schema_id,
            "table_version": self.table_version,
            "external_schema_id": self.external_schema_id,
            "task": self.task,
            "source": self.source,
            "columns": {name: column._asdict() for name, column in self.columns.items()},
            **({} if self.data_schema is None else {"data_schema": self.data_schema}),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "SourceVersion":
        """Read a stored version."""
        columns = {name: SourceColumn(**column) for name, column in stored.get("columns", {}).items()}
        version = (stored.get("schema_id"), stored.get("table_version", 0))
        names = ("external_schema_id", "task", "source", "data_schema")
        others = (stored.get(name) for name in names)
        return cls(*version, columns, *others)


@dataclass(frozen=True, slots=True)
class SourceHistory:
    """The source versions of a table, the current one last."""

    versions: tuple[SourceVersion, ...]

    @property
    def current(self) -> SourceVersion:
        """The version that the latest MD message declared."""
        return self.versions[-1]

    def find(self, version: SourceVersion) -> int | None:
        """Return the index of the same version, None if it is not kept."""
        return next((index for index, known in enumerate(self.versions) if known.is_same(version)), None)

    def to_json(self) -> dict[str, Any]:
        """Return the history as it is stored."""
        return self.current.to_json() | {"earlier": [version.to_json() for version in self.versions[:-1]]}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "SourceHistory":
        """Read a stored history."""
        earlier = stored.get("earlier", [])
        return cls(tuple(SourceVersion.from_json(version) for version in [*earlier, stored]))


def new_entries(stored: SourceHistory | None, entries: Sequence[TableMetadata]) -> list[TableMetadata]:
    """Return the MD messages of one table that do not repeat an earlier version.

    A message with an older version of its task changes nothing if it was accepted before: the topic is being read
    again. Raises RejectedInput `stale_metadata` if it was never accepted.
    """
    versions = list(stored.versions) if stored else []
    accepted = []
    for entry in entries:
        version = SourceVersion.of(entry)
        newest = max((known.table_version for known in versions if known.task == version.task), default=None)
        if newest is None or version.table_version >= newest:
            accepted.append(entry)
            versions.append(version)
        elif not any(known.is_same(version) for known in versions):
            raise _stale(entry, newest)
    return accepted


def extend(stored: SourceHistory | None, entries: Sequence[TableMetadata]) -> SourceHistory:
    """Return the history after the MD messages of one request for one table, in order; see `new_entries`."""
    versions = list(stored.versions) if stored else []
    for entry in new_entries(stored, entries):
        version = SourceVersion.of(entry)
        known = next((known for known in reversed(versions) if known.is_same(version)), version)
        if version.data_schema not in {None, known.data_schema}:
            renewed = replace(known, data_schema=version.data_schema)
            versions, known = [renewed if other is known else other for other in versions], renewed
        if not versions or versions[-1] is not known:
            versions = [other for other in versions if other is not known] + [known]
    return SourceHistory(tuple(versions[-1 - MAX_EARLIER_VERSIONS :]))


def with_external_ids(history: SourceHistory, adopted: Mapping[VersionId, str]) -> SourceHistory:
    """Return the history with external schema ids that appeared for the first time."""
    versions = (
        replace(version, external_schema_id=version.external_schema_id or adopted.get(version.identity))
        for version in history.versions
    )
    return SourceHistory(tuple(versions))


def _stale(entry: TableMetadata, newest: int) -> RejectedInput:
    detail = f"table version {entry.table_version} is older than {newest} of the same task, and was never accepted"
    pointer = f"{entry.at}/lineage/tableVersion"
    return RejectedInput.of((Problem(Code.STALE_METADATA, detail, entry.index, pointer),))


def renamed_columns(
    entry: TableMetadata, previous: SourceVersion | None, present: TableSchema, options: TableOptions
) -> Iterable[Problem]:
    """Return the columns new to the table that have the ordinal and the type of one that the metadata drops.

    `previous` is the version that the source had before. Columns that the table already has are not new: they were
    registered. Options are applied to the metadata as at registration.
    """
    known = {column.name: column for column in present.columns}
    added = [column for column in options.declared(entry.schema).columns if column.name not in known]
    before = {} if previous is None else {column.ordinal: name for name, column in previous.columns.items()}
    for column in added:
        old = known.get(before.get(entry.columns[column.name].ordinal, ""))
        if old is not None and old.name not in entry.columns and old.type == column.type:
            yield _problem(entry, column.name, f"column {old.name!r} seems to have been renamed to {column.name!r}")


def columns_in_another_case(entry: TableMetadata, present: TableSchema, options: TableOptions) -> Iterable[Problem]:
    """Return the columns that the table has in another letter case, which no file can hold beside them."""
    known = {name.casefold(): name for name in present.names}
    for column in options.declared(entry.schema).columns:
        old = known.get(column.name.casefold(), column.name)
        if old != column.name:
            yield _problem(
                entry, column.name, f"column {old!r} of the table is now {column.name!r}, in another letter case"
            )


def _problem(entry: TableMetadata, column: str, detail: str) -> Problem:
    pointer = pointer_to(f"{entry.at}/tableStructure/tableColumns", column)
    return Problem(Code.COLUMN_RENAMED, detail, entry.index, pointer, column)
