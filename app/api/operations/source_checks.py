"""Compare the rows of a table with counts and checksums of its source."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from app.api.gateway import Gateway
from app.api.operations.table_operations import visible_table
from app.api.schemas.operations import (
    BucketDifferenceModel,
    RowDifferencesModel,
    SourceCheckModel,
    SourceCheckResultModel,
)
from app.domain.access.rights import Principal
from app.domain.canonical_text import canonical_rows
from app.domain.model.projection import History
from app.domain.model.table import Table
from app.domain.model.table_schema import Column
from app.domain.rows.landing_projection import landed_columns
from app.domain.rows.typed_columns import typed_images
from app.domain.source_checks import MAX_ROWS, BucketDigests, BucketRows, Digest, compared_columns
from app.staging.connection.database import translated_errors
from app.staging.images import image_snapshot
from mirrorgate.errors import Code, RejectedInput


class _Rows(NamedTuple):
    """The rows of a table, some at a time: the compared columns as arrays."""

    sequence: int | None
    batches: Iterator[Sequence[Any]]


def check_source(gateway: Gateway, name: str, principal: Principal, wanted: SourceCheckModel) -> SourceCheckResultModel:
    """Compare a table with its source, reading all rows once.

    Raises RejectedInput `unknown_table`, `unknown_column`, `not_comparable`, `no_row_images`, `not_mirrored` or
    `bad_check`.
    """
    _check(wanted)
    with translated_errors(), gateway.engine.begin() as connection:
        table = visible_table(connection, name, principal)
    columns = compared_columns(
        table.schema, wanted.columns, {*table.options.masks, *table.replaced}, table.left_columns
    )
    collector = BucketDigests(wanted.digits) if wanted.rows is None else _bucket_rows(wanted.rows)
    with _rows(gateway, table, columns, wanted.against) as rows:
        for arrays in rows.batches:
            collector.add(canonical_rows(arrays, columns, table.schema.key_columns))
    buckets, found = [], None
    if isinstance(collector, BucketDigests):
        source = {name: Digest(one.rows, one.checksum) for name, one in (wanted.buckets or {}).items()}
        buckets = [BucketDifferenceModel.of(one) for one in collector.differences(source)]
    else:
        differences = collector.differences()
        found = RowDifferencesModel.of(differences, count=differences.rows)
    return SourceCheckResultModel(
        equal=not buckets and (found is None or not found.count),
        generation=table.generation,
        sequence=rows.sequence,
        columns=[column.name for column in columns],
        rows=collector.rows,
        buckets=buckets,
        keys=found,
    )


def _bucket_rows(of_source: Mapping[str, Mapping[str, int]]) -> BucketRows:
    return BucketRows(frozenset(of_source), (pair for rows in of_source.values() for pair in rows.items()))


def _check(wanted: SourceCheckModel) -> None:
    if (wanted.buckets is None) == (wanted.rows is None):
        raise RejectedInput(Code.BAD_CHECK, "a check has either `buckets` or `rows`")
    names = [*(wanted.buckets or {}), *(wanted.rows or {})]
    lengths = {len(name) for name in names}
    if len(lengths) > 1 or (wanted.buckets and lengths != {wanted.digits}):
        raise RejectedInput(Code.BAD_CHECK, "the names of the buckets do not all have the length `digits`")
    if sum(map(len, (wanted.rows or {}).values())) > MAX_ROWS:
        raise RejectedInput(Code.BAD_CHECK, f"a check can have {MAX_ROWS:,} rows of the source")


@contextmanager
def _rows(gateway: Gateway, table: Table, columns: Sequence[Column], against: str) -> Iterator[_Rows]:
    if against == "mirror":
        if table.options.history is History.APPEND_ONLY:
            detail = "the Delta table has every version of a row (history=append_only), and the source one"
            raise RejectedInput(Code.NOT_COMPARABLE, detail)
        if gateway.mirror_rows is None:
            raise RejectedInput(
                Code.NOT_MIRRORED, "this API has no target of a mirror: MIRRORGATE_MIRROR_TARGET is not set"
            )
        flag = table.options.audit_columns.deleted if table.options.flags_deletes else None
        yield _Rows(None, gateway.mirror_rows.typed(table.name, landed_columns(columns, table.options), flag))
        return
    names = [column.name for column in columns]
    with image_snapshot(gateway.engine, table) as snapshot:
        batches = (
            typed_images(images, snapshot.table.schema, snapshot.table.options, names) for images in snapshot.images
        )
        yield _Rows(snapshot.sequence, batches)
