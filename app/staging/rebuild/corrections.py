"""Brings copied rows up to date with the batches that came after their snapshot.

Invariant: a copy has exactly the image that is noted for its key, or the present one if none is noted. So a correction
knows under which key the copy of a row is, whatever the row has become since.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
import sqlalchemy as sa

from app.domain.arrow.payload import encode_payload
from app.domain.model.change import Operation
from app.domain.model.table import BatchSequence, Table
from app.domain.model.table_schema import SchemaVersion
from app.domain.rebuild.rebuilt_rows import AuditedRows, Finding, RebuiltRows, deletes_of, projected_batch, rebuilt_rows
from app.domain.rows.projection.landing_projection import Acceptance
from app.domain.rows.row_image import StoredImage
from app.domain.rows.row_rules import RowMarker
from app.errors import Code
from app.staging.batches.block_insert import NewBlock, insert_block
from app.staging.batches.row_images import read_present_keys, write_row_images
from app.staging.rebuild.progress import Rebuild
from app.staging.rebuild.touched_rows import TouchedRow, forget_touched, read_touched
from app.staging.tables.schema_versions import store_version

LAST_SEQUENCE = sa.text("""
    SELECT coalesce(max(last_sequence), 0) AS sequence, coalesce(max(schema_version), 1) AS version
    FROM mirrorgate.staged_blocks WHERE table_id = :table_id AND generation = :generation""")
"""Read the last batch of a generation, and its newest schema version."""


def correct_copies(
    connection: sa.Connection, table: Table, rebuild: Rebuild, *, limit: int | None = None
) -> list[Finding]:
    """Correct the copies of changed rows, at most `limit` of them, under the sequence lock; return what does not fit.

    The corrections are one batch of deletes and upserts after the copied rows. With findings nothing must be committed;
    a duplicate key is certain only without `limit`. A process that dies before the commit leaves copies and notes.
    """
    touched = read_touched(connection, table.table_id, rebuild.generation, limit=limit)
    changed = [row for row in touched if row.copied != row.present]
    if changed:
        findings = _correct(connection, table, rebuild, changed)
        if findings:
            return findings
    if touched:
        forget_touched(connection, table.table_id, [row.row_key for row in touched])
    return []


def _correct(connection: sa.Connection, table: Table, rebuild: Rebuild, changed: Sequence[TouchedRow]) -> list[Finding]:
    plan, width = rebuild.plan, len(table.schema.columns)
    before = rebuilt_rows([row.copied for row in changed if row.copied is not None], plan, width)
    after = rebuilt_rows(
        [row.present for row in changed if row.present is not None], plan, width, marker=RowMarker.UPSERT
    )
    if not isinstance(after, RebuiltRows):
        return after
    assert isinstance(before, RebuiltRows), "the copied rows have been converted before"
    next_generation, copied, present = rebuild.next_generation, before.keys.to_pylist(), after.keys.to_pylist()
    keys = set(present)
    gone = [at for at, key in enumerate(copied) if key not in keys]
    write_row_images(connection, table.table_id, next_generation, dict.fromkeys(copied))
    taken = read_present_keys(connection, table.table_id, next_generation, present)
    duplicates = len(present) - len(keys) + len(taken)
    if duplicates:
        return [Finding(None, Code.KEY_IN_USE, duplicates, 1)]
    batch = pa.concat_batches([deletes_of(before, plan, gone), after.batch])
    operations = [Operation.DELETE] * len(gone) + [Operation.UPSERT] * len(present)
    audited = AuditedRows(operations, [True] * len(gone) + after.deleted)
    sequence = _stage(connection, table, rebuild, batch, audited)
    images = {key: StoredImage(image, sequence) for key, image in zip(present, after.images.to_pylist(), strict=True)}
    write_row_images(connection, table.table_id, next_generation, images)
    return []


def _stage(
    connection: sa.Connection, table: Table, rebuild: Rebuild, batch: pa.RecordBatch, audited: AuditedRows
) -> BatchSequence:
    """Stage the corrections under a schema version with the row marker; return their sequence."""
    plan = rebuild.plan
    keys = {"table_id": rebuild.table_id, "generation": rebuild.next_generation}
    last = connection.execute(LAST_SEQUENCE, keys).one()
    version = SchemaVersion(2 if plan.schema.bare else 1)
    if last.version < version:
        store_version(connection, rebuild.table_id, rebuild.next_generation, version, plan.marked)
    sequence = BatchSequence(last.sequence + 1)
    rebuilt, acceptance = plan.rebuilt(table), Acceptance(sequence, datetime.now(UTC))
    landing = projected_batch(batch, audited, rebuilt, acceptance) if rebuilt.is_projected else batch
    block = NewBlock(
        rebuild.table_id,
        rebuild.next_generation,
        version,
        sequence,
        [landing.num_rows],
        [batch.num_rows],
        *encode_payload([landing]),
        cdc_started=True,
    )
    insert_block(connection, block)
    return sequence
