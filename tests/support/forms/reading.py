"""How the gateway reads a request of a form, without a database: on the exact path, and on the columnar path."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Final
from urllib.parse import urlencode

import msgspec

from app.api.changes.parameters import (
    ChangeQuery,
    arcion_query,
    csv_query,
    debezium_query,
    replicate_query,
    rows_csv_query,
    rows_query,
)
from app.domain.access.rights import Principal, Right
from app.domain.model.change import Change
from app.domain.model.names import SourceName, TableName
from app.domain.model.table import Table, with_landing
from app.domain.model.table_options import BinaryEncoding, TableOptions
from app.domain.model.table_schema import TableSchema
from app.domain.rows.from_arrow import changed_rows
from app.domain.rows.landing_rows import LandingRows, landing_rows
from app.domain.rows.row_rules import RowRules
from app.formats.arrow import decode_arrow_stream
from app.formats.replicate.columnar_images import ImageReader
from app.formats.replicate.history import SourceVersion, VersionResolver
from app.formats.replicate.layouts import read_layout
from app.formats.replicate.messages import decode_replicate
from app.formats.replicate.metadata import MetadataMessage
from app.formats.replicate.standard_form import with_key
from app.formats.rows.columnar import split_operations
from app.ingest import BodyReader, ReplicateJson
from app.ingest.columnar import Asked, read_together
from app.ingest.readers.replicate import CachedSource, SourceCache
from app.ingest.table_cache import TableCache
from mirrorgate.parameters import RowOperation
from tests.support.forms import replicate
from tests.support.forms.form import ARROW, CSV, Request, Source, SourceTable
from tests.support.samples.schemas import active_table, no_database, schema_of

ANYONE: Final = Principal("forms", frozenset({Right.INGEST}), ("*",))
HEX: Final = TableOptions(binary_encoding=BinaryEncoding.HEX)
"""Options of a table whose events say nothing of the encoding of their bytes."""
_QUERIES: Final[Mapping[str, Callable[[bytes], ChangeQuery]]] = {
    "arcion": arcion_query,
    f"arcion {CSV}": csv_query,
    "replicate": replicate_query,
    "debezium": debezium_query,
    "rows": rows_query,
    f"rows {CSV}": rows_csv_query,
}


def schema(table: SourceTable) -> TableSchema:
    """Return the schema that the table is registered with; keys are required."""
    return schema_of({column.name: column.declared for column in table.columns}, table.keys, table.keys)


def metadata_entry(table: SourceTable) -> MetadataMessage:
    """Return what Replicate's metadata says of the table."""
    message = replicate.metadata(Source(table, Random(0)))
    return decode_replicate(msgspec.json.encode([message])).metadata[0]


def rows_of(request: Request, table: SourceTable, rules: RowRules) -> LandingRows:
    """Return the rows that a request lands as. Raises RejectedInput."""
    if request.content == ARROW:
        values, operations = split_operations(decode_arrow_stream(request.body), RowOperation.UPSERT)
        return changed_rows(values, operations, rules)
    return landing_rows(changes_of(request, table), rules)


def changes_of(request: Request, table: SourceTable) -> Sequence[Change]:
    """Return the changes of a request as the exact path decodes them. Raises RejectedInput."""
    reader = _reader_of(request)
    if isinstance(reader, ReplicateJson):
        return _replicate_changes(reader, table)
    [source] = reader.exact(_cache(table, active_table(schema(table), HEX, table.name)), ANYONE).sources
    return source.changes


def check_paths_agree(request: Request, table: SourceTable, options: TableOptions) -> bool:
    """Check that the columnar path gives the rows of the exact path, or nothing; return whether it read the body.

    The rows include what audit columns need of each change, and what they leave as row images.
    """
    if request.content == ARROW or not (reader := _reader_of(request)).is_columnar:
        return False
    known = active_table(with_landing(schema(table), options), options, table.name)
    [outcome] = read_together([Asked(reader, ANYONE)], _cache(table, known))
    if not isinstance(outcome, list):
        return False
    [batch] = outcome
    expected = rows_of(request, table, RowRules.of(known))
    assert batch.rows.batch.equals(expected.batch)
    assert batch.rows.changes == expected.changes
    assert batch.rows.source_position == expected.source_position
    assert _kept(batch.rows) == _kept(expected)
    return True


def _kept(rows: LandingRows) -> tuple[Sequence[bytes], Sequence[bytes | None]] | None:
    """Return the keys of row images and what the rows leave of them; None if the table keeps none."""
    return None if rows.images is None else (rows.images.keys, rows.images.images)


def _reader_of(request: Request) -> BodyReader:
    query = _QUERIES[f"{request.path} {CSV}" if request.content == CSV else request.path]
    return query(urlencode(request.parameters).encode()).reader_of(request.body)


def _replicate_changes(reader: ReplicateJson, table: SourceTable) -> Sequence[Change]:
    """Decode data messages of a table that was described before."""
    form = replace(reader.form, layout=read_layout(replicate.LAYOUT)) if reader.layout else reader.form
    resolver = VersionResolver(None, [metadata_entry(table)])
    changes = []
    for message in decode_replicate(reader.body, form=form).changes:
        change, _ = resolver.resolve(message)
        needs_key = change.before is None and change.after is None
        changes.append(with_key(change, message.key, message.key_at, table.keys) if needs_key else change)
    return changes


class _Tables(TableCache):
    """A cache of all tables that there are."""

    def refresh(self, source: SourceName) -> Table | None:
        """Return the table of the source."""
        return self.route(source)


def _cache(table: SourceTable, known: Table) -> TableCache:
    """Return a cache of the table, by all of its names and with its source as Replicate described it."""
    name = TableName.parse(table.name)
    sources = (SourceName.address(name), SourceName.of(None, name.schema, name.table))
    cache = _Tables(no_database, dict.fromkeys(sources, known))
    version = SourceVersion.of(metadata_entry(table))
    cache.described[version.schema_id] = frozenset({table.name})
    try:
        reader = ImageReader(known.schema.names, frozenset(), version)
    except ValueError:  # of a name with quotes, which the exact path reads
        reader = None
    SourceCache(cache).keep(CachedSource(known, version, reader))
    return cache
