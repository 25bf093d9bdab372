"""Completing partial updates: the row images of one table as the batches of one transaction see and leave them."""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import SourceValue
from app.domain.model.table import BatchSequence, Table
from app.domain.rows.column_conversion import convert
from app.domain.rows.completed_bytes import CompletedBytes
from app.domain.rows.key_changes import KeyChanges
from app.domain.rows.landing_rows import LandingRows, in_order
from app.domain.rows.row_builder import RowMarker
from app.domain.rows.row_image import (
    ImageRows,
    IncompleteRow,
    Known,
    StoredImage,
    by_position,
    encode_image,
    known_values,
    missing_of,
    value_in,
)
from app.domain.rows.typed_columns import chosen_rows
from app.domain.rows.value_reading import reading_of
from app.errors import Code, Problem, RejectedInput
from app.errors.json_pointer import pointer_to

Layer: TypeAlias = Mapping[bytes, bytes | None]
"""What one batch leaves: the image of each key it touched, None where it deleted the row."""

Filled: TypeAlias = dict[int, Sequence[SourceValue]]
"""The full values of the rows that had gaps, in order."""


@dataclass
class ImageOverlay:
    """Images that are stored, and over them those that the batches of this transaction leave, in their order."""

    table: Table
    stored: Mapping[bytes, StoredImage]
    """At least those whose keys the gaps of these batches want."""
    present: Set[bytes] = frozenset()
    """Keys of other stored images: at least those of which the batches ask whether there is one."""
    written: dict[bytes, StoredImage | None] = field(default_factory=dict)
    """What is to be stored in the end; None: nothing under this key any more."""
    completed: CompletedBytes = field(default_factory=CompletedBytes)

    def complete(self, rows: LandingRows) -> tuple[LandingRows, Layer]:
        """The rows as they land, and what they leave: without gaps, in landing order, inserts of keys that have a row
        as upserts. The overlay itself stays as it is, see `adopt`.

        Raises RejectedInput `incomplete_update` naming each column that no image gives, `ambiguous_key_change`,
        `key_in_use` or `body_too_large`; TooMuchTogether where the requests before leave no room for this one.
        """
        images = rows.images
        if images is None:
            return rows, {}
        if not images.incomplete and not images.key_changes:
            layer = dict(zip(images.keys, images.images, strict=True))
            if not self._may_repeat(images, layer):
                return rows, layer
        walk = _Walk(self, images)
        walk.run()
        self.completed.size += walk.completed_size
        return self._landing(rows, images, walk), walk.layer

    def adopt(self, layer: Layer, sequence: BatchSequence) -> None:
        """Put what a batch leaves over the rest, once the batch is sure to be staged."""
        for key, image in layer.items():
            self.written[key] = None if image is None else StoredImage(image, sequence)

    def is_live(self, key: bytes) -> bool | None:
        """Whether the batches before leave a row with this key; None where there is no image of one."""
        if key in self.written:
            return self.written[key] is not None
        return True if key in self.present or key in self.stored else None

    def known(self, key: bytes) -> Known | None:
        """The values of the row with this key as the batches before leave it, None without an image."""
        stored = self.written[key] if key in self.written else self.stored.get(key)
        if stored is None:
            return None
        if not self.table.returned_columns:
            return known_values(stored.image)
        values = by_position(known_values(stored.image), len(self.table.schema.names))
        for name, since in self.table.returned_columns.items():
            if stored.sequence <= since:
                values.pop(self.table.schema.names.index(name), None)
        return values

    def problem(self, incomplete: IncompleteRow, ordinal: int) -> Problem:
        """The rejection of an update for a column that no image gives."""
        column = self.table.schema.names[ordinal]
        detail = "new value not given, and no row image holds the old one"
        pointer = pointer_to(incomplete.pointer, column)
        return Problem(Code.INCOMPLETE_UPDATE, detail, incomplete.message, pointer, column)

    def _may_repeat(self, images: ImageRows, layer: Layer) -> bool:
        """Whether the key of some insert may have a row by then."""
        if not images.inserts:
            return False
        if len(layer) < len(images.keys):
            return True
        # Sets and views are compared by the shorter one, so that a long transaction costs a short batch nothing.
        live = (self.written.keys(), self.stored.keys(), self.present)
        return any(not layer.keys().isdisjoint(keys) for keys in live)

    def _landing(self, rows: LandingRows, images: ImageRows, walk: "_Walk") -> LandingRows:
        batch = rows.batch
        if walk.filled:
            gaps = {entry.missing for entry in images.incomplete.values()}
            batch = self._filled(batch, walk.filled, {ordinal for gap in gaps for ordinal in gap.ordinals})
        if walk.repeated:
            repeated = chosen_rows(batch.num_rows, walk.repeated)
            markers = pc.if_else(repeated, pa.scalar(RowMarker.UPSERT, pa.int32()), batch.column(batch.num_columns - 1))
            batch = pa.RecordBatch.from_arrays([*batch.columns[:-1], markers], schema=batch.schema)
        batch = in_order(batch, walk.order)
        return rows if batch is rows.batch else replace(rows, batch=batch, repeated_inserts=len(walk.repeated))

    def _filled(self, batch: pa.RecordBatch, filled: Filled, ordinals: Collection[int]) -> pa.RecordBatch:
        """The batch with the values of these rows in these columns: what was given there becomes what it was."""
        columns, values = list(batch.columns), list(zip(*filled.values(), strict=True))
        mask = chosen_rows(batch.num_rows, filled)
        for ordinal in ordinals:
            column = self.table.schema.columns[ordinal]
            array = convert(values[ordinal], column.type, reading_of(column.name, self.table.options))
            columns[ordinal] = pc.replace_with_mask(columns[ordinal], mask, array)
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


@dataclass
class _Walk:
    """The rows of one batch in landing order, each over what the rows before it leave."""

    overlay: ImageOverlay
    images: ImageRows
    layer: dict[bytes, bytes | None] = field(default_factory=dict)
    filled: Filled = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)
    """Inserts whose key has a row."""
    completed_size: int = 0
    """Bytes of the images that partial updates became."""
    _before_delete: dict[int, tuple[Known | None, Layer]] = field(default_factory=dict)
    """By row that moves away: its values, and what the layer said of its key."""
    _problems: list[Problem] = field(default_factory=list)

    def run(self) -> None:
        """Raises RejectedInput. A change that cannot be completed leaves nothing: those after it are judged as if it
        were not there, so what it does to later key changes is not told beside it."""
        try:
            self._land_rows()
        except RejectedInput:
            if not self._problems:
                raise
        if self._problems:
            raise RejectedInput.of(tuple(self._problems))

    def _land_rows(self) -> None:
        images, table = self.images, self.overlay.table
        changes = KeyChanges(images.key_changes, table.schema, table.options, has_images=True)
        inserts = {*images.inserts}
        for row in changes.landing_order(images.keys, self._is_live):
            self.order.append(row)
            key, image = images.keys[row], images.images[row]
            incomplete = images.incomplete.get(row)
            if incomplete is not None:
                self._fill(row, key, incomplete)
                continue
            if image is None:
                self._note_delete(row, key)
            elif row in inserts and self._is_live(key):
                self.repeated.append(row)
            self.layer[key] = image

    def _fill(self, row: int, key: bytes, incomplete: IncompleteRow) -> None:
        moved = incomplete.missing.moved
        known = self._before_delete[row - 1][0] if moved else self._known(key)
        ordinals = incomplete.missing.ordinals
        absent = missing_of(ordinals, known)
        if missing := [ordinal for ordinal in absent if ordinal not in incomplete.missing.optional]:
            self._problems.extend(self.overlay.problem(incomplete, ordinal) for ordinal in missing)
            if moved:
                self._restore(row - 1)
            return
        values = list(incomplete.values)
        filled = set(ordinals).difference(absent) if known is not None else set()
        for ordinal in filled:
            assert known is not None
            values[ordinal] = value_in(known, ordinal)
        self.filled[row] = values
        unknown = [place for place in incomplete.unknown if place not in filled]
        self.layer[key] = completed = encode_image(values, unknown)
        self.completed_size += len(completed)
        self.overlay.completed.check(self.completed_size)

    def _note_delete(self, row: int, key: bytes) -> None:
        following = self.images.incomplete.get(row + 1)
        if following is not None and following.missing.moved:
            self._before_delete[row] = self._known(key), {key: self.layer[key]} if key in self.layer else {}

    def _restore(self, row: int) -> None:
        """The row that could not move is under its old key as it was, unless another row has come there."""
        key = self.images.keys[row]
        if self.layer.get(key) is None:
            self.layer.pop(key, None)
            self.layer |= self._before_delete[row][1]

    def _known(self, key: bytes) -> Known | None:
        if key in self.layer:
            image = self.layer[key]
            return None if image is None else known_values(image)
        return self.overlay.known(key)

    def _is_live(self, key: bytes) -> bool | None:
        return self.layer[key] is not None if key in self.layer else self.overlay.is_live(key)
