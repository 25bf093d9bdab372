"""Arcion JSON on the columnar path."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from app.domain.access.rights import Principal
from app.domain.model.input_limits import InputLimits
from app.domain.model.source_name import SourceName
from app.domain.rows.shaped_changes import ShapedChanges
from app.formats.arcion.columnar import ArcionBody, ArcionPart, ArcionTableReader, decode_columnar
from app.formats.arcion.exists_flags import NotColumnar
from app.ingest.columnar.decline import Decline, Declined
from app.ingest.columnar.reading import Opened, OpenedBody, TablePart, eligible_table, opened_or_why
from app.ingest.table_cache import TableCache

_MAX_CACHED: Final = 1_024


@dataclass(frozen=True, slots=True)
class ArcionRequest:
    """An Arcion JSON body, and the parameters of its request."""

    body: bytes
    requested: SourceName | None
    override: bool
    limits: InputLimits
    principal: Principal

    @staticmethod
    def open(requests: "Sequence[ArcionRequest]", table_cache: TableCache) -> list[Opened]:
        """Decode the messages of all bodies together, and find their tables."""
        decoded = decode_columnar([request.body for request in requests])
        return [
            opened_or_why(request._by_table, body, table_cache) for request, body in zip(requests, decoded, strict=True)
        ]

    def _by_table(self, decoded: ArcionBody | None, table_cache: TableCache) -> OpenedBody:
        is_long = len(self.body) > self.limits.value_bytes  # a value can be too long
        if decoded is None or is_long or decoded.messages > self.limits.messages:
            raise Declined(Decline.BODY)
        if self.override and self.requested is None:
            raise Declined(Decline.BODY)
        parts = []
        for source, content in decoded.parts:
            target = self.requested if self.override and self.requested else source
            table = eligible_table(target, self.requested, table_cache, self.principal)
            if target.catalog not in {None, table.arcion_catalog}:
                raise Declined(Decline.TABLE)
            parts.append(TablePart(table, _reader_of(table.schema.names), content, len(content.operations)))
        return OpenedBody(parts, decoded.wrong_hashes)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the messages for tables with the same columns."""

    reader: ArcionTableReader

    def read(self, parts: Sequence[ArcionPart]) -> list[ShapedChanges]:
        """Return the changes of each part. Raises Declined."""
        try:
            return self.reader.read(parts)
        except (NotColumnar, ValueError, RecursionError):
            raise Declined(Decline.IMAGES) from None


@lru_cache(_MAX_CACHED)
def _reader_of(columns: tuple[str, ...]) -> _Reader:
    """Return the reader of tables with these columns. Raises Declined for names that it cannot read."""
    try:
        return _Reader(ArcionTableReader.of(columns))
    except ValueError:
        raise Declined(Decline.TABLE) from None
