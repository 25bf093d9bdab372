"""Gives images to the rows of a Delta version, which the mirror made of the landing files up to one of them.

The images count as written by the last batch of that file. So those of newer batches stay, older ones are replaced, and
images that are still older afterwards are of rows that the version no longer has. Then the images of batches up to that
one are the rows of the version, and the payloads of later batches are replayed over them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeAlias

import pyarrow as pa
import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import BatchSequence, Table
from app.domain.model.table_schema import Column
from app.domain.rows.projection.source_rows import landed_columns
from app.domain.rows.row_image import row_keys
from app.domain.rows.typed_images import typed_images
from app.errors import Code, RejectedInput
from app.staging.connection.database import BINARY_RESULT, Engine, translated_errors
from app.staging.images.backfill.images import KEYS_PER_STEP, NewImages, encoded, write_older
from app.staging.images.backfill.progress import Backfill, BackfillStep, Progress, store_place
from app.staging.images.backfill.rules import RECREATE, locked_table
from app.staging.mirror.progress import mirror_progress

SELECT_LAST_SEQUENCE = sa.text("""
    SELECT last_sequence FROM mirrorgate.landing_files
    WHERE table_id = :table_id AND generation = :generation AND number = :number
    UNION ALL
    SELECT file_batches FROM mirrorgate.purged_totals
    WHERE table_id = :table_id AND generation = :generation AND files = :number LIMIT 1""")
"""Read the last batch of a landing file, if the ledger still has it."""

SELECT_SAME_BATCH: Final = """
    SELECT row_key, image FROM mirrorgate.row_images
    WHERE table_id = %(table_id)s AND generation = %(generation)s AND row_key = ANY(%(keys)b)
      AND sequence = %(sequence)s"""
"""Read the images of some keys that a certain batch wrote."""

DELETE_OLDER_OF_RANGE = sa.text("""
    WITH range AS (
        SELECT row_key FROM mirrorgate.row_images
        WHERE table_id = :table_id AND generation = :generation
          AND (CAST(:after AS bytea) IS NULL OR row_key > :after) ORDER BY row_key LIMIT :limit),
    gone AS (
        DELETE FROM mirrorgate.row_images i USING range r
        WHERE i.table_id = :table_id AND i.generation = :generation AND i.row_key = r.row_key
          AND i.sequence < :sequence)
    SELECT max(row_key) FROM (SELECT row_key FROM range ORDER BY row_key DESC LIMIT 1) last""")
"""Delete the older ones of the next row images in the order of their keys, and return the last key of these."""


class MirroredRows(Protocol):
    """The rows of one version of a mirrored table."""

    @property
    def table_id(self) -> str:
        """The id of the Delta table, which another one at its place does not have."""

    @property
    def version(self) -> int:
        """The Delta version."""

    @property
    def generation(self) -> int:
        """The generation of the Delta table, as the mirror counts."""

    @property
    def file_number(self) -> int:
        """The last landing file that the version has."""

    @property
    def rows(self) -> int:
        """The number of rows."""

    def batches(self, columns: Sequence[Column], skip: int) -> Iterator[list[pa.Array]]:
        """Yield the rows behind the first `skip` ones, always in the same order, as arrays of these columns."""


class MirrorReader(Protocol):
    """Opens mirrored tables."""

    def __call__(self, table: TableName, version: int | None) -> MirroredRows:
        """Open a table at a version, the newest one by default.

        Raises RejectedInput `not_mirrored` or `unknown_version`, and TemporarilyUnavailable `mirror_away`.
        """


_Images: TypeAlias = dict[bytes, bytes]


def last_batch_of(connection: sa.Connection, table: Table, mirrored: MirroredRows) -> BatchSequence:
    """Return the last batch whose rows a Delta version has.

    Raises RejectedInput `not_mirrored` unless the version is of this generation of the table, which the mirror's report
    tells, and the ledger still has its last file; `bad_option` if its rows do not tell what their images must know.
    """
    if table.late_columns:
        detail = f"columns of {table.name} came back, or were added with a default: its mirrored rows do not tell when"
        raise RejectedInput(Code.BAD_OPTION, detail, remedy=RECREATE)
    report = mirror_progress(connection, [table.table_id]).get(table.table_id)
    if report is None or report.delta_generation != mirrored.generation:
        remedy = "Run `mirrorgate mirror` with MIRRORGATE_DATABASE_URL until it has reported the table."
        detail = f"no mirror has reported that its Delta table has generation {table.generation} of {table.name}"
        raise RejectedInput(Code.NOT_MIRRORED, detail, remedy=remedy)
    file = {"table_id": table.table_id, "generation": table.generation, "number": mirrored.file_number}
    sequence = connection.execute(SELECT_LAST_SEQUENCE, file).scalar()
    if sequence is None:
        detail = f"the ledger no longer has file {mirrored.file_number}, up to which {table.name} is mirrored"
        raise RejectedInput(Code.NOT_MIRRORED, detail, remedy="Let the mirror apply newer files first.")
    return BatchSequence(sequence)


def copy_rows(engine: Engine, table: Table, mirrored: MirroredRows, backfill: Backfill, progress: Progress) -> Backfill:
    """Give images to the rows of a version behind the place, and return where the backfill is then.

    Call `progress` after each step. A process that dies leaves a place behind which the next one continues.
    Raises RejectedInput `mirror_duplicate_keys`.
    """
    for arrays in mirrored.batches(landed_columns(table.schema.columns, table.options), backfill.mirror_rows):
        batch = pa.RecordBatch.from_arrays(arrays, names=table.schema.names)
        for start in range(0, batch.num_rows, KEYS_PER_STEP):
            rows = batch.slice(start, KEYS_PER_STEP)
            images = _images_of(table, rows)
            backfill = replace(
                backfill,
                mirror_rows=backfill.mirror_rows + rows.num_rows,
                rows_done=backfill.rows_done + rows.num_rows,
            )
            with translated_errors(), engine.begin() as connection:
                present, counters = locked_table(connection, table)
                _write(connection, present, images, backfill.through_sequence)
                backfill = replace(backfill, batches_total=counters.last_sequence)
                store_place(connection, backfill)
            progress(backfill)
    with translated_errors(), engine.begin() as connection:
        locked_table(connection, table)
        backfill = replace(backfill, step=BackfillStep.OLDER)
        store_place(connection, backfill)
    return backfill


def delete_older(engine: Engine, table: Table, backfill: Backfill, progress: Progress) -> Backfill:
    """Delete the images of rows that the version does not have, and return where the backfill is then.

    They are what a backfill of before has left. Call `progress` after each step. A process that dies leaves a place
    behind which the next one continues.
    """
    while backfill.step is BackfillStep.OLDER:
        with translated_errors(), engine.begin() as connection:
            locked_table(connection, table)
            parameters = {
                "table_id": table.table_id,
                "generation": table.generation,
                "after": backfill.through_key,
                "limit": KEYS_PER_STEP,
                "sequence": backfill.through_sequence,
            }
            last = connection.execute(DELETE_OLDER_OF_RANGE, parameters).scalar()
            if last is None:
                backfill = replace(backfill, step=BackfillStep.PAYLOADS)
            else:
                backfill = replace(backfill, through_key=bytes(last))
            store_place(connection, backfill)
        progress(backfill)
    return backfill


def _images_of(table: Table, rows: pa.RecordBatch) -> _Images:
    keys = row_keys([rows.column(name) for name in table.schema.key_columns])
    found: _Images = {}
    for key, image in zip(keys, encoded(rows, table.schema, table.options), strict=True):
        if found.setdefault(key, image) != image:
            raise _duplicate_keys(table)
    return found


def _write(connection: sa.Connection, table: Table, images: _Images, sequence: BatchSequence) -> None:
    new = NewImages([*images], [sequence] * len(images), [*images.values()])
    skipped = images.keys() - write_older(connection, table, new)
    if not skipped:
        return
    life = {"table_id": table.table_id, "generation": table.generation}
    parameters = {**life, "keys": [*skipped], "sequence": sequence}
    stored = connection.exec_driver_sql(SELECT_SAME_BATCH, parameters, execution_options=BINARY_RESULT).all()
    if stored:
        # The batch wrote them itself, in the words of its source, or another row of the version has the key.
        columns = typed_images([image for _, image in stored], table.schema, table.options, table.schema.names)
        rows = pa.RecordBatch.from_arrays(columns, names=table.schema.names)
        for (key, _), image in zip(stored, encoded(rows, table.schema, table.options), strict=True):
            if images[bytes(key)] != image:
                raise _duplicate_keys(table)


def _duplicate_keys(table: Table) -> RejectedInput:
    return RejectedInput(Code.MIRROR_DUPLICATE_KEYS, f"the Delta table of {table.name} has several rows of one key")
