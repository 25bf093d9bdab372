"""Changes of one table -> landing rows: an Arrow record batch with the row marker as its last column.

While a load session is open, a row of the load lands if the stream has not changed its key since the load began. An
insert of the load or of the stream becomes an upsert if its key has a row: the source may have had the row when the
load read it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import count
from operator import eq
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import (
    MAX_CELLS,
    NO_PROGRESS,
    Change,
    SourceProgress,
    SourceValue,
    check_cells,
    progress_of,
)
from app.domain.model.table_schema import TableSchema
from app.domain.rows.derived_columns import MAX_DERIVED_TEXT_BYTES, check_text_bytes, text_bytes, with_derived
from app.domain.rows.key_changes import KeyChange, KeyChanges
from app.domain.rows.row_facts import needed_facts, with_facts_of_changes, with_facts_of_shaped
from app.domain.rows.row_image import ImageRows, IncompleteRow, encode_image, encode_images, row_keys
from app.domain.rows.row_layout import MAX_PROBLEMS, RowBuilder
from app.domain.rows.row_rules import RowMarker, RowRules, ShapedChanges
from app.domain.rows.shaped_rows import POINTER, ShapedRows, shaped_rows
from app.domain.rows.typed_columns import fitting_columns, typed_columns
from mirrorgate.errors import Code, Problem, RejectedInput


@dataclass(frozen=True, slots=True)
class LandingRows:
    """The typed rows of one batch: `batch` has the schema `TableSchema.arrow`, with one or two rows per change.

    The facts that audit columns need are further columns before the row marker, until the rows are `landed`.
    """

    batch: pa.RecordBatch
    changes: int
    ends_transaction: bool = True
    """False if the source said that its transaction continues after the last change."""
    has_snapshots: bool = False
    starts_cdc: bool = False
    """True if a change is not a snapshot row."""
    source_position: str | None = None
    """The source position of the last change that has one, verbatim."""
    progress: SourceProgress = NO_PROGRESS
    """Position of the source at the last change."""
    images: ImageRows | None = None
    """Meaning of the rows for row images, if the table keeps them."""
    repeated_inserts: int = 0
    """Inserts that land as upserts because their key has a row."""
    typed_bytes: int | None = field(default=None, compare=False)
    """Bytes of the rows as a share of those that were typed together; None if they were typed alone."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.batch.num_rows)

    @property
    def nbytes(self) -> int:
        """The bytes of the rows. Arrow takes 30 µs to count those of 17 columns (performance notebook)."""
        return int(self.batch.nbytes) if self.typed_bytes is None else self.typed_bytes


LACKING: Final = frozenset({Code.MISSING_KEY, Code.INCOMPLETE_UPDATE, Code.INCOMPLETE_INSERT})
"""Codes of missing columns."""


def rejection(problems: Iterable[Problem], *, remedy: str | None = None) -> RejectedInput:
    """Return the rejection of messages with these problems, at least one, in the order of the messages.

    Within a message, wrong values and names precede missing columns, which they often explain.
    """
    by_message = sorted(problems, key=lambda problem: (problem.index or 0, problem.code in LACKING))
    return RejectedInput.of(tuple(by_message), remedy=remedy)


def landing_rows(changes: Sequence[Change], rules: RowRules | TableSchema) -> LandingRows:
    """Type and check the ordered changes of one table; for a schema alone, with default rules.

    Raises RejectedInput naming every message that cannot land correctly, with index, pointer and column, up to
    MAX_PROBLEMS or a few more; or `too_many_messages` if messages times columns exceed a limit.
    """
    if isinstance(rules, TableSchema):
        rules = RowRules(rules)
    schema, options = rules.schema, rules.options
    check_cells(len(changes), len(schema.columns))
    builder = RowBuilder(rules)
    for change in changes:
        builder.add(change)
        if builder.is_full:
            break
    arrays, problems = typed_columns(builder, rules)
    problems = [*builder.problems, *problems]
    if problems:
        raise rejection(problems)
    if rules.masking is not None:
        arrays = rules.masking.arrays(arrays, schema.names)
        if options.keeps_images:
            builder.rows = [*rules.masking.rows(builder.rows, arrays, schema.names)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)
    batch = with_facts_of_changes(batch, builder.operations, builder.changes, rules)
    batch = _with_derived(batch, builder, rules)
    images = _images(builder, batch, rules) if options.keeps_images else None
    batch, images = _in_landing_order(batch, images, builder.key_changes, rules)
    return _landing_rows(changes, batch, images, builder)


def _with_derived(batch: pa.RecordBatch, builder: RowBuilder, rules: RowRules) -> pa.RecordBatch:
    """Return the rows with their derived columns; those that row images complete are computed again then.

    Raises RejectedInput `bad_value`, or `body_too_large` for longer strings than one request can derive columns from.
    """
    check_text_bytes(batch, rules)
    batch, wrong = with_derived(batch, rules)
    problems = []
    for row, column, detail in () if rules.from_images else wrong:
        if row not in builder.missing:
            index, pointer = builder.origins[row]
            problems.append(Problem(Code.BAD_VALUE, detail, index, pointer, column))
    if problems:
        raise rejection(problems[:MAX_PROBLEMS])
    return batch


def landing_rows_of_shaped(requests: Sequence[ShapedChanges], rules: RowRules) -> list[LandingRows] | None:
    """Return the rows of each request in order, typed together: most of the cost of a small request is fixed.

    The rows equal those of `landing_rows` for each request alone. None if a change cannot land, a value does not fit,
    the requests have more than MAX_CELLS values together, a request has snapshot rows beside other changes, or several
    updates change keys of rows that a format types. Of several requests, type each alone then: one may be at fault.
    `landing_rows` names what is wrong with one. Messages are numbered by request, and errors of later steps name the
    image of all rows `/after`.
    """
    if sum(len(request.shapes) for request in requests) * len(rules.schema.columns) > MAX_CELLS:
        return None
    rows = shaped_rows(requests, rules)
    if rows and rules.options.keeps_images:
        rows = rows.with_nulls()  # images have the values as Python objects
    arrays = fitting_columns(rows, rules) if rows else None
    if rows is None or arrays is None:
        return None
    if rules.masking is not None:
        arrays = rules.masking.arrays(arrays, rules.schema.names)
        if rules.options.keeps_images:
            rows = replace(rows, rows=rules.masking.rows(rows.rows, arrays, rules.schema.names))
    batch = pa.RecordBatch.from_arrays(arrays, schema=rules.schema.arrow)
    if needed_facts(rules):
        operations = [layout.operation for layout in rows.layouts]
        batch = with_facts_of_shaped(batch, operations, rows.messages, requests, rules)
        if batch is None:
            return None
    if rules.options.derive:
        if text_bytes(batch, rules) > MAX_DERIVED_TEXT_BYTES:
            return None
        batch, wrong = with_derived(batch, rules)
        if any(one.row not in rows.missing for one in wrong):
            return None
    try:
        return [*_each(requests, rows, batch, rules)]
    except RejectedInput:  # the order of key changes is ambiguous
        return None


def _each(
    requests: Sequence[ShapedChanges], rows: ShapedRows, batch: pa.RecordBatch, rules: RowRules
) -> Iterator[LandingRows]:
    has_images = rules.options.keeps_images
    keys = row_keys([batch.column(name) for name in rules.schema.key_columns]) if has_images else []
    size = batch.nbytes
    start = first = 0
    for request, end, has_snapshots in zip(requests, rows.ends, rows.has_snapshots, strict=True):
        key_changes = rows.key_changes_between(start, end, first)
        images = _shaped_images(rows, range(start, end), first, keys, key_changes, rules) if has_images else None
        of_request, images = _in_landing_order(batch.slice(start, end - start), images, key_changes, rules)
        changes = len(request.shapes)
        yield LandingRows(
            of_request,
            changes,
            request.ends_transaction,
            has_snapshots,
            changes > 0 and not has_snapshots,
            request.source_position,
            request.progress,
            images,
            typed_bytes=size * (end - start) // max(1, batch.num_rows),
        )
        start, first = end, first + changes


def _landing_rows(
    changes: Sequence[Change], batch: pa.RecordBatch, images: ImageRows | None, builder: RowBuilder
) -> LandingRows:
    return LandingRows(
        batch,
        len(changes),
        changes[-1].ends_transaction if changes else True,
        builder.has_snapshots,
        builder.starts_cdc,
        next((change.source_position for change in reversed(changes) if change.source_position), None),
        progress_of(changes),
        images,
    )


def _in_landing_order(
    batch: pa.RecordBatch, images: ImageRows | None, changes: Sequence[KeyChange], rules: RowRules
) -> tuple[pa.RecordBatch, ImageRows | None]:
    """Return the rows as `KeyChanges` orders them, with their images, unless images decide on the order later.

    Raises RejectedInput.
    """
    if not changes or rules.options.reads_images:
        return batch, images
    keys = row_keys([batch.column(name) for name in rules.schema.key_columns])
    markers = batch.column(batch.num_columns - 1).to_pylist()
    live: dict[bytes, bool] = {}
    order: list[int] = []
    for row in KeyChanges(changes, rules.schema, rules.options, has_images=False).landing_order(keys, live.get):
        live[keys[row]] = markers[row] != RowMarker.DELETE
        order.append(row)
    if images is not None:
        images = ImageRows([keys[row] for row in order], [images.images[row] for row in order])
    return in_order(batch, order), images


def in_order(batch: pa.RecordBatch, order: Sequence[int]) -> pa.RecordBatch:
    """Return the rows of a batch in this order."""
    return batch if all(map(eq, order, count())) else batch.take(pa.array(order))


def _images(builder: RowBuilder, batch: pa.RecordBatch, rules: RowRules) -> ImageRows:
    incomplete = {
        row: IncompleteRow(tuple(builder.rows[row]), missing, builder.unknown.get(row, ()), *builder.origins[row])
        for row, missing in builder.missing.items()
    }
    keys = row_keys([batch.column(name) for name in rules.schema.key_columns])
    return _image_rows(
        builder.rows, builder.markers, keys, incomplete, builder.unknown, tuple(builder.key_changes), rules
    )


def _shaped_images(
    rows: ShapedRows,
    of_request: range,
    first: int,
    keys: Sequence[bytes],
    key_changes: Sequence[KeyChange],
    rules: RowRules,
) -> ImageRows:
    start, chosen = of_request.start, slice(of_request.start, of_request.stop)
    incomplete = {
        row - start: IncompleteRow(
            rows.rows[row], rows.missing[row], rows.unknown.get(row, ()), rows.messages[row] - first, POINTER
        )
        for row in (of_request if rows.missing else ())
        if row in rows.missing
    }
    unknown = {row - start: rows.unknown[row] for row in (of_request if rows.unknown else ()) if row in rows.unknown}
    return _image_rows(rows.rows[chosen], rows.markers[chosen], keys[chosen], incomplete, unknown, key_changes, rules)


def _image_rows(
    rows: Sequence[Sequence[SourceValue]],
    markers: Sequence[int],
    keys: Sequence[bytes],
    incomplete: Mapping[int, IncompleteRow],
    unknown: Mapping[int, Sequence[int]],
    key_changes: Sequence[KeyChange],
    rules: RowRules,
) -> ImageRows:
    if not (incomplete or unknown or RowMarker.DELETE in markers):
        images: list[bytes | None] = [*encode_images(rows)]
    else:
        images = _images_of_some(rows, markers, incomplete, unknown)
    if not rules.options.reads_images:
        return ImageRows(keys, images)
    moved = {key_change.row + 1 for key_change in key_changes}
    inserts = [at for at, marker in enumerate(markers) if marker == RowMarker.INSERT and at not in moved]
    return ImageRows(keys, images, incomplete, () if rules.schema.bare else inserts, key_changes)


def _images_of_some(
    rows: Sequence[Sequence[SourceValue]],
    markers: Sequence[int],
    incomplete: Mapping[int, IncompleteRow],
    unknown: Mapping[int, Sequence[int]],
) -> list[bytes | None]:
    """Return the images of rows, None for deletes and for rows that lack columns."""
    images: list[bytes | None] = [None] * len(rows)
    whole = [at for at, marker in enumerate(markers) if marker != RowMarker.DELETE and at not in incomplete]
    for at, image in zip(whole, encode_images([rows[at] for at in whole]), strict=True):
        images[at] = encode_image(rows[at], unknown[at]) if at in unknown else image
    return images


_LOADABLE: Final = pa.array([RowMarker.INSERT, RowMarker.UPSERT], pa.int32())


def check_loadable(rows: LandingRows) -> ImageRows:
    """Return what the rows of a load mean for row images.

    Raises RejectedInput `load_takes_rows` if one updates or deletes a row, `no_row_images` if the table has stopped
    keeping row images.
    """
    if rows.images is None:
        raise RejectedInput(Code.NO_ROW_IMAGES, "the table keeps no row images any more")
    if rows.images.key_changes or not pc.all(pc.is_in(rows.batch.column(-1), _LOADABLE)).as_py():
        raise RejectedInput(Code.LOAD_TAKES_ROWS, "a change of the request updates or deletes a row")
    return rows.images


def without_keys(rows: LandingRows, images: ImageRows, keys: Set[bytes]) -> LandingRows:
    """Return the rows of other keys in their order; `images` are those of the rows, which change no keys."""
    if keys.isdisjoint(images.keys):
        return rows
    kept = [row for row, key in enumerate(images.keys) if key not in keys]
    places = {old: new for new, old in enumerate(kept)}
    return replace(
        rows,
        batch=rows.batch.take(pa.array(kept, pa.int64())),
        changes=len(kept),
        images=ImageRows(
            [images.keys[row] for row in kept],
            [images.images[row] for row in kept],
            {places[row]: entry for row, entry in images.incomplete.items() if row in places},
            [places[row] for row in images.inserts if row in places],
        ),
    )


def insert_keys(rows: LandingRows) -> Sequence[bytes]:
    """Return the keys of the rows that are inserts, none if the table keeps no row images."""
    return [] if rows.images is None else [rows.images.keys[row] for row in _inserts(rows)]


def with_inserts(rows: LandingRows) -> LandingRows:
    """Return the rows, each insert of which lands as an upsert if its key has a row."""
    if rows.images is None or not (inserts := _inserts(rows)):
        return rows
    return replace(rows, images=replace(rows.images, inserts=inserts))


def has_repeats(keys: Sequence[bytes]) -> bool:
    """Return True if two rows have the same key."""
    return len({*keys}) < len(keys)


def _inserts(rows: LandingRows) -> Sequence[int]:
    found: list[int] = pc.indices_nonzero(pc.equal(rows.batch.column(-1), int(RowMarker.INSERT))).to_pylist()
    return found
