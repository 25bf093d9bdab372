"""Which table and which version of its source each data message of a request belongs to.

What is stored of the tables comes in as plain values. Positions count: a data message belongs to the last
metadata (MD) message of its table before it, in the same request or an earlier one.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.domain.change import Change
from app.domain.names import TableName
from app.errors import Code, Problem, RejectedInput
from app.formats.replicate import DataChange, DataMessage
from app.formats.replicate_masks import ColumnLayout, apply_layout, check_without_layout
from app.formats.replicate_metadata import SourceHistory, SourceVersion, TableMetadata, VersionId


def table_of(message: DataMessage, requested: TableName | None, described: TableName | None) -> TableName:
    """The table of a data message: `?table=`, its own address, or the table that its schema id describes.

    Raises RejectedInput `table_mismatch` where they disagree, `schema_unknown` or `unknown_table` without any.
    """
    candidates = [name for name in (requested, message.table, described) if name is not None]
    if not candidates:
        code = Code.SCHEMA_UNKNOWN if message.schema_id else Code.UNKNOWN_TABLE
        raise _refusal(message, code, "nothing tells the table of this message", "/messageSchemaId")
    if any(name.folded != candidates[0].folded for name in candidates):
        raise _refusal(message, Code.TABLE_MISMATCH, "parts of the request name different tables", "")
    return candidates[0]


@dataclass
class TableConversation:
    """The messages of one table in one request: what was stored before it, and its MD messages in order."""

    stored: SourceHistory | None
    entries: Sequence[TableMetadata] = ()
    excluded: frozenset[str] = frozenset()
    """Columns that are never staged."""
    adopted: dict[VersionId, str] = field(default_factory=dict)
    """External schema ids seen here for the first time, to be stored with their versions."""
    _layouts: dict[VersionId, ColumnLayout] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._places = [entry.index for entry in self.entries]
        self._versions = [self._known(entry.version) for entry in self.entries]

    def schema_ids(self) -> set[str]:
        """The schema ids that describe this table at some point of the request."""
        versions = [*self._versions, *(self.stored.versions if self.stored else ())]
        return {version.schema_id for version in versions if version.schema_id}

    def settle(self, message: DataChange) -> tuple[Change, str]:
        """The change with its masks applied by the version it belongs to, and the task that wrote it, "" where no
        metadata message tells.

        Raises RejectedInput `schema_mismatch`, and what `apply_layout` and `check_without_layout` raise.
        """
        version = self.version_of(message)
        arguments = (message.change, message.column_mask, message.change_mask, message.headers_at)
        if version is not None and message.external_schema_id is not None:
            self._check_external(message, message.external_schema_id, version)
        if version is None or not version.columns:
            check_without_layout(*arguments)
            return message.change, "" if version is None else version.task or ""
        layout = self._layouts.get(version.identity)
        if layout is None:
            layout = self._layouts[version.identity] = ColumnLayout(version.columns, self.excluded)
        return apply_layout(*arguments, layout), version.task or ""

    def version_of(self, message: DataMessage) -> SourceVersion | None:
        """The version that a message was written under, None where no metadata message told one.

        Raises RejectedInput `schema_mismatch`.
        """
        candidates = self._candidates(message.index)
        for version in candidates:
            if message.schema_id is None or version.schema_id in (None, message.schema_id):
                return version
        if candidates:
            detail = "the message was written for another schema id than the table's at this place"
            raise _refusal(message, Code.SCHEMA_MISMATCH, detail, "/messageSchemaId")
        return None

    def _candidates(self, index: int) -> Sequence[SourceVersion]:
        """The version at this place of the request.

        Before its first MD message that is the stored one, or the one that preceded this MD message when the
        request is repeated: its metadata is kept even if its data was refused.
        """
        place = bisect_left(self._places, index)
        if place > 0:
            return [self._versions[place - 1]]
        if self.stored is None:
            return self._versions[:1]
        first = self.stored.find(self._versions[0]) if self._versions else None
        return [self.stored.current, *(self.stored.versions[first - 1 : first] if first else ())]

    def _check_external(self, message: DataChange, external_schema_id: str, version: SourceVersion) -> None:
        known = version.external_schema_id or self.adopted.setdefault(version.identity, external_schema_id)
        if known != external_schema_id:
            detail = "the external schema id changed and no metadata message came with it"
            raise _refusal(message, Code.SCHEMA_MISMATCH, detail, f"{message.headers_at}externalSchemaId")

    def _known(self, version: SourceVersion) -> SourceVersion:
        place = self.stored.find(version) if self.stored else None
        return version if self.stored is None or place is None else self.stored.versions[place]


def adopt(history: SourceHistory, adopted: Mapping[VersionId, str]) -> SourceHistory:
    """The history with the external schema ids that were seen for the first time."""
    versions = (
        replace(version, external_schema_id=version.external_schema_id or adopted.get(version.identity))
        for version in history.versions
    )
    return SourceHistory(tuple(versions))


def _refusal(message: DataMessage, code: Code, detail: str, pointer: str) -> RejectedInput:
    return RejectedInput.of((Problem(code, detail, message.index, pointer),))
