"""Read a body of a form on the columnar path, and compare it with the exact path."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from app.domain.model.names import SourceName
from app.domain.model.projection import AuditColumns
from app.domain.model.table import Table, with_landing
from app.domain.model.table_options import BinaryEncoding, PartialUpdates, TableOptions
from app.domain.rows.landing_rows import LandingRows, landing_rows
from app.domain.rows.row_rules import RowRules
from app.formats.replicate.columnar_images import ImageReader
from app.formats.replicate.history import SourceVersion
from app.formats.replicate.messages import decode_replicate
from app.ingest.columnar import read_together
from app.ingest.readers.replicate import CachedSource, SourceCache
from app.ingest.table_cache import TableCache
from tests.support.forms.form import NAME, Events, Form, schema
from tests.support.forms.replicate import SCHEMA_ID, described
from tests.support.forms.source_histories import SourceTable
from tests.support.samples.schemas import active_table, no_database

_FULL: Final = TableOptions(
    audit_columns=AuditColumns("operation of it", "time of it", "position of it"), binary_encoding=BinaryEncoding.HEX
)
_PARTIAL: Final = replace(_FULL, partial_updates=PartialUpdates.COMPLETE)


def check_paths_agree(form: Form, table: SourceTable, events: Events, options: TableOptions | None = None) -> bool:
    """Check that the columnar path gives the rows of the exact path, or nothing; return whether it read the body.

    The rows include what audit columns need of each change, and what they leave as row images.
    """
    if form.request is None:
        return False
    options = options or (_PARTIAL if form.is_partial else _FULL)
    known = active_table(with_landing(schema(table), options), options, NAME)
    cache = _cache(table, known)
    body = form.write(table, events)
    [outcome] = read_together([form.request(body)], cache)
    if not isinstance(outcome, list):
        return False
    [batch] = outcome
    expected = landing_rows(form.read(table, body), RowRules.of(known))
    assert batch.rows.batch.equals(expected.batch)
    assert batch.rows.changes == expected.changes
    assert batch.rows.source_position == expected.source_position
    assert _kept(batch.rows) == _kept(expected)
    return True


def _kept(rows: LandingRows) -> tuple[Sequence[bytes], Sequence[bytes | None]] | None:
    """Return the keys of row images and what the rows leave of them; None if the table keeps none."""
    return None if rows.images is None else (rows.images.keys, rows.images.images)


def _cache(table: SourceTable, known: Table) -> TableCache:
    """Return a cache of the table, by all of its names and with its source as Replicate described it."""
    names = (SourceName.address(NAME), SourceName.of(None, NAME.schema, NAME.table))
    cache = TableCache(no_database, {name.key: known for name in names})
    [entry] = decode_replicate(json.dumps([described(table)]).encode()).metadata
    version = SourceVersion.of(entry)
    cache.described[SCHEMA_ID] = frozenset({str(NAME)})
    try:
        reader = ImageReader(known.schema.names, frozenset(), version)
    except ValueError:  # of a name with quotes, which the exact path reads
        reader = None
    SourceCache(cache).keep(CachedSource(known, version, reader))
    return cache
