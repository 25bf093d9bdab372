"""Replicate data messages on the columnar path; metadata messages take the exact path."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

from app.domain.access.rights import Principal
from app.domain.model.input_limits import InputLimits
from app.domain.model.names import TableName
from app.domain.model.source_name import SourceName
from app.domain.model.table import TableId
from app.domain.model.table_options import SourceOrder
from app.domain.rows.shaped_changes import ShapedChanges
from app.errors import RejectedInput
from app.formats.replicate.columnar import Address, DataBody, DataColumns, decode_data_messages, is_keyed
from app.formats.replicate.columnar_images import ImageReader
from app.ingest.columnar.decline import Decline, Declined
from app.ingest.columnar.reading import Opened, OpenedBody, TablePart, opened_or_why
from app.ingest.replicate.source_cache import FoundSource, SourceCache
from app.ingest.table_cache import TableCache

_MAX_CACHED: Final = 1_024
_SCHEMA_ID: Final = re.compile(rb'"messageSchemaId"[ \t\r\n]*:[ \t\r\n]*"([^"\\]+)"')
_MAX_HEAD: Final = 1_024
"""Bytes at the start of a body, which have a schema id if its messages have an envelope."""

_Found: TypeAlias = dict[tuple[Address, TableName | None, int], FoundSource]
"""The sources of requests that are read together, by what told them: an address, `?table=` and a caller."""


@dataclass(frozen=True, slots=True)
class ReplicateBody:
    """A Replicate body, and the parameters of its request."""

    body: bytes
    requested: TableName | None
    keyed: bool | None
    limits: InputLimits
    principal: Principal

    @staticmethod
    def open(requests: "Sequence[ReplicateBody]", table_cache: TableCache) -> list[Opened]:
        """Decode the messages of all bodies together, and find their tables."""
        image_types = [request._image_type(table_cache) for request in requests]
        bodies = [request.body if request.keyed in {None, is_keyed(request.body)} else b"" for request in requests]
        decoded = decode_data_messages(bodies, image_types)
        found: _Found = {}
        return [
            opened_or_why(partial(request._by_table, found), body, table_cache)
            for request, body in zip(requests, decoded, strict=True)
        ]

    def _image_type(self, table_cache: TableCache) -> Any:
        """Return the type of the images that follow the first schema id, which is usually that of all messages.

        None if images with all of its columns would have more of them than the body has bytes: its images have few.
        """
        found = _SCHEMA_ID.search(self.body, 0, _MAX_HEAD)
        image_type = table_cache.image_types.get(found[1].decode(errors="replace")) if found else None
        if image_type is None:
            return None
        columns = len(image_type.__args__[0].__struct_fields__)
        return image_type if columns * self.body.count(b'"data"') <= len(self.body) else None

    def _by_table(self, sources: _Found, decoded: DataBody | None, table_cache: TableCache) -> OpenedBody:
        is_long = len(self.body) > self.limits.value_bytes  # a value can be too long
        if decoded is None or is_long or len(decoded.columns.data) > self.limits.messages:
            raise Declined(Decline.BODY)
        columns, addresses = decoded
        found: dict[TableId, tuple[FoundSource, list[int]]] = {}
        for address, indexes in addresses.items():
            asked = (address, self.requested, id(self.principal))
            source = sources.get(asked) or sources.setdefault(asked, self._find(address, table_cache))
            known, at = found.get(source.table.table_id, (source, []))
            found[source.table.table_id] = (known if known.found_by else source, [*at, *indexes])
        return OpenedBody(
            [
                self._part(source, columns if len(found) == 1 else columns.at(sorted(indexes)))
                for source, indexes in found.values()
            ]
        )

    def _find(self, address: Address, table_cache: TableCache) -> FoundSource:
        """Return the source of messages with this address. Raises Declined or NotCached."""
        try:
            own = SourceName.of(None, address.schema, address.table) if address.table else None
        except RejectedInput:
            raise Declined(Decline.TABLE) from None
        requested = SourceName.address(self.requested) if self.requested else None
        found = SourceCache(table_cache).find(requested, own, address.schema_id, self.principal)
        if found is None or not found.table.state.accepts_changes or found.table.schema.can_need_marker:
            raise Declined(Decline.TABLE)
        if found.table.options.source_order is not SourceOrder.ARRIVAL:
            raise Declined(Decline.TABLE)
        return found

    def _part(self, found: FoundSource, columns: DataColumns) -> TablePart:
        if found.source.reader is None:
            raise Declined(Decline.TABLE)
        return TablePart(found.table, _reader_of(found.source.reader), columns, len(columns.operations), found.found_by)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the messages of one table."""

    reader: ImageReader

    def read(self, parts: Sequence[DataColumns]) -> list[ShapedChanges]:
        """Return the changes of each part. Raises Declined."""
        changes = self.reader.read(parts)
        if changes is None:
            raise Declined(Decline.IMAGES)
        return changes


@lru_cache(_MAX_CACHED)
def _reader_of(reader: ImageReader) -> _Reader:
    return _Reader(reader)
