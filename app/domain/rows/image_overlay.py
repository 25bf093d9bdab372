"""Completes partial updates and flags deleted rows from row images, over the batches of one table in one transaction.

Invariant: a batch sees the images as the batches before it leave them, and a rejected batch leaves nothing.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import SourceValue
from app.domain.model.table import BatchSequence, Table
from app.domain.rows.derived_columns import with_derived
from app.domain.rows.key_changes import KeyChanges
from app.domain.rows.landing_rows import LandingRows, in_order
from app.domain.rows.row_image import (
    CompletedBytes,
    ImageRows,
    IncompleteRow,
    Known,
    StoredImage,
    by_position,
    completion,
    deleted_image,
    encode_image,
    encode_images,
    is_deleted,
    known_values,
    list_images,
    missing_of,
    value_in,
)
from app.domain.rows.row_layout import MAX_PROBLEMS
from app.domain.rows.row_rules import RowMarker, RowRules
from app.domain.rows.typed_columns import chosen_rows, converted
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.exceptions import pointer_to

Layer: TypeAlias = Mapping[bytes, bytes | None]
"""Result of one batch: the image of each key that it touched, None if no row of it is left in the mirror."""

Filled: TypeAlias = dict[int, Sequence[SourceValue]]
"""The full values of rows that lacked columns, in order."""


@dataclass
class ImageOverlay:
    """The stored images, overlaid by those that the batches of this transaction leave, in order."""

    table: Table
    stored: Mapping[bytes, StoredImage]
    """At least the images that these batches need for missing columns."""
    present: Set[bytes] = frozenset()
    """Keys of other stored images: at least those whose existence the batches need to know."""
    written: dict[bytes, StoredImage | None] = field(default_factory=dict)
    """The images to store in the end, None for a key to remove."""
    completed: CompletedBytes = field(default_factory=CompletedBytes)

    def complete(self, rows: LandingRows) -> tuple[LandingRows, Layer]:
        """Return the rows as they land, and what they leave. The overlay itself does not change, see `adopt`.

        The rows are complete and in landing order. An insert of a key that has a row becomes an upsert. If the table
        flags deletes, a delete of such a key becomes an update with all values of the row. Raises RejectedInput
        `incomplete_update` naming each column that no image gives, `ambiguous_key_change`, `key_in_use` or
        `body_too_large`; TooMuchTogether if the requests before leave no room for this one.
        """
        images = rows.images
        if images is None:
            return rows, {}
        if not images.incomplete and not images.key_changes:
            layer = dict(zip(images.keys, images.images, strict=True))
            if not self._may_repeat(images, layer) and not (self.table.options.flags_deletes and images.has_deletes):
                return rows, layer
        walk = _Walk(self, images)
        if not walk.run_at_once():
            walk.run()
        self.completed.size += walk.completed_size
        return self._landing(rows, images, walk), walk.layer

    def adopt(self, layer: Layer, sequence: BatchSequence) -> None:
        """Overlay what a batch leaves, once the batch is certain to be staged."""
        for key, image in layer.items():
            self.written[key] = None if image is None else StoredImage(image, sequence)

    def is_live(self, key: bytes) -> bool | None:
        """Return True if the batches before leave a row with this key in the source; None if no image tells."""
        found = self.image(key)
        if found is not None:
            return not is_deleted(found.image)
        if key in self.written:
            return False
        return True if key in self.present else None

    def is_mirrored(self, key: bytes) -> bool:
        """Return True if the batches before leave a row with this key in the mirror, deleted or not."""
        if key in self.written:
            return self.written[key] is not None
        return key in self.present or key in self.stored

    def image(self, key: bytes) -> StoredImage | None:
        """Return the image of the row with this key as the batches before leave it."""
        return self.written[key] if key in self.written else self.stored.get(key)

    def known(self, key: bytes) -> Known | None:
        """Return the values of the row with this key as the batches before leave it, None if no image has them."""
        stored = self.image(key)
        if stored is None or is_deleted(stored.image):
            return None
        if not self.table.late_columns:
            return known_values(stored.image)
        values = by_position(known_values(stored.image), len(self.table.schema.names))
        for name, since in self.table.late_columns.items():
            if stored.sequence <= since:
                values.pop(self.table.schema.names.index(name), None)
        return values

    def problem(self, incomplete: IncompleteRow, ordinal: int) -> Problem:
        """Return the problem of an update whose column no image gives."""
        column = self.table.schema.names[ordinal]
        detail = "the new value is not given, and no row image has the old one"
        pointer = pointer_to(incomplete.pointer, column)
        return Problem(Code.INCOMPLETE_UPDATE, detail, incomplete.message, pointer, column)

    def _may_repeat(self, images: ImageRows, layer: Layer) -> bool:
        """Return True if the key of an insert may already have a row."""
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
            missing = {entry.missing for entry in images.incomplete.values()}
            batch = self._filled(batch, walk.filled, {ordinal for columns in missing for ordinal in columns.ordinals})
        if walk.flagged:
            names, keys = self.table.schema.names, self.table.schema.key_set
            batch = self._filled(batch, walk.flagged, [at for at, name in enumerate(names) if name not in keys])
            batch = _marked(batch, walk.flagged, RowMarker.UPDATE)
        if (walk.filled or walk.flagged) and self.table.options.derive:
            batch = self._derived(batch, images, walk.filled)
        if walk.repeated:
            batch = _marked(batch, walk.repeated, RowMarker.UPSERT)
        batch = in_order(batch, walk.order)
        return rows if batch is rows.batch else replace(rows, batch=batch, repeated_inserts=len(walk.repeated))

    def _filled(self, batch: pa.RecordBatch, filled: Filled, ordinals: Collection[int]) -> pa.RecordBatch:
        """Return the batch with the full values of these rows in these columns."""
        columns, values = list(batch.columns), list(zip(*filled.values(), strict=True))
        arrays = converted({ordinal: values[ordinal] for ordinal in ordinals}, RowRules.of(self.table))
        if len(filled) < batch.num_rows:
            mask = chosen_rows(batch.num_rows, filled)
            arrays = {at: pc.replace_with_mask(columns[at], mask, array) for at, array in arrays.items()}
        for ordinal, array in arrays.items():
            columns[ordinal] = array
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _derived(self, batch: pa.RecordBatch, images: ImageRows, filled: Filled) -> pa.RecordBatch:
        """Return the completed rows with their derived columns.

        Raises RejectedInput `bad_value` for a change that gives such a column no value. A deleted row remains without
        it.
        """
        batch, wrong = with_derived(batch, RowRules.of(self.table))
        problems = []
        for row, column, detail in wrong:
            if row in filled:
                entry = images.incomplete[row]
                problems.append(Problem(Code.BAD_VALUE, detail, entry.message, entry.pointer, column))
        if problems:
            raise RejectedInput.of(tuple(problems[:MAX_PROBLEMS]))
        return batch


def _marked(batch: pa.RecordBatch, rows: Collection[int], marker: RowMarker) -> pa.RecordBatch:
    """Return the batch with another marker in these rows."""
    chosen, present = chosen_rows(batch.num_rows, rows), batch.column(batch.num_columns - 1)
    markers = pc.if_else(chosen, pa.scalar(int(marker), pa.int32()), present)
    return pa.RecordBatch.from_arrays([*batch.columns[:-1], markers], schema=batch.schema)


@dataclass
class _Walk:
    """Walk over the rows of one batch in landing order; each sees what the rows before it leave."""

    overlay: ImageOverlay
    images: ImageRows
    layer: dict[bytes, bytes | None] = field(default_factory=dict)
    filled: Filled = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    flagged: Filled = field(default_factory=dict)
    """The full values of deleted rows that remain in the mirror."""
    repeated: list[int] = field(default_factory=list)
    """Inserts whose key already has a row."""
    completed_size: int = 0
    """Bytes of the images that partial updates were completed to, and of those of deleted rows."""
    _before_delete: dict[int, tuple[Known | None, Layer]] = field(default_factory=dict)
    """By row that moves to another key: its values, and what the layer had for its key."""
    _problems: list[Problem] = field(default_factory=list)

    def run_at_once(self) -> bool:
        """Do what `run` does for rows that do not depend on each other; return False, with nothing done, for others.

        Each row has another key, none is flagged, and the stored images know every column.
        """
        images, overlay, width = self.images, self.overlay, len(self.overlay.table.schema.names)
        if images.key_changes or overlay.table.late_columns or len({*images.keys}) < len(images.keys):
            return False
        if overlay.table.options.flags_deletes and images.has_deletes:
            return False
        entries = images.incomplete.values()
        if any(entry.unknown or entry.missing.optional for entry in entries):
            return False
        found = [overlay.image(images.keys[row]) for row in images.incomplete]
        stored = [image.image for image in found if image is not None]
        known = list_images(stored, width) if len(stored) == len(found) else None
        if known is None:
            return False
        rows = [
            completion(entry.missing.ordinals, width)((*entry.values, *old))
            for entry, old in zip(entries, known, strict=True)
        ]
        completed = encode_images(rows)
        self.completed_size = sum(map(len, completed))
        overlay.completed.check(self.completed_size)
        self.filled = dict(zip(images.incomplete, rows, strict=True))
        self.layer = dict(zip(images.keys, images.images, strict=True))
        self.layer.update(zip(map(images.keys.__getitem__, images.incomplete), completed, strict=True))
        self.repeated = [row for row in images.inserts if overlay.is_mirrored(images.keys[row])]
        self.order = [*range(len(images.keys))]
        return True

    def run(self) -> None:
        """Walk all rows. Raises RejectedInput with the problems of all updates that cannot be completed.

        Such an update leaves nothing, and later changes are judged without it. Its effects on later key changes are
        therefore not reported beside it.
        """
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
        flags, inserts = table.options.flags_deletes, {*images.inserts}
        if flags:  # a row can move to the key of a deleted one
            inserts.update(change.row + 1 for change in images.key_changes)
        for row in changes.landing_order(images.keys, self._is_live):
            self.order.append(row)
            key, image = images.keys[row], images.images[row]
            if row in inserts and self._is_mirrored(key):
                self.repeated.append(row)
            incomplete = images.incomplete.get(row)
            if incomplete is not None:
                self._fill(row, key, incomplete)
                continue
            if image is None:
                self._note_delete(row, key)
                image = self._flag(row, key) if flags else None
            self.layer[key] = image
        self.flagged = dict(sorted(self.flagged.items()))

    def _fill(self, row: int, key: bytes, incomplete: IncompleteRow) -> None:
        moved = incomplete.missing.moved
        known = self._before_delete[row - 1][0] if moved else self._known(key)
        ordinals = incomplete.missing.ordinals
        absent = missing_of(ordinals, known)
        optional = {*incomplete.missing.optional, *(incomplete.missing.of_new_row if known is None else ())}
        if missing := [ordinal for ordinal in absent if ordinal not in optional]:
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
        unknown = [ordinal for ordinal in incomplete.unknown if ordinal not in filled]
        self.layer[key] = completed = encode_image(values, unknown)
        self.completed_size += len(completed)
        self.overlay.completed.check(self.completed_size)

    def _flag(self, row: int, key: bytes) -> bytes | None:
        """Return the image of a deleted row, and let it land with its values; None if the mirror has no such row.

        Its values are those that have landed: a column that returned to the source included.
        """
        stored = self.overlay.image(key)
        image = self.layer.get(key, stored and stored.image)
        if image is None:
            return None
        known = known_values(image)
        flagged = image if is_deleted(image) else deleted_image(known)
        self.flagged[row] = [value_in(known, at) for at in range(len(self.overlay.table.schema.names))]
        self.completed_size += len(flagged)
        self.overlay.completed.check(self.completed_size)
        return flagged

    def _note_delete(self, row: int, key: bytes) -> None:
        following = self.images.incomplete.get(row + 1)
        if following is not None and following.missing.moved:
            self._before_delete[row] = self._known(key), {key: self.layer[key]} if key in self.layer else {}

    def _restore(self, row: int) -> None:
        """Put a row that could not move back under its old key, unless another row is there now."""
        key = self.images.keys[row]
        if not self._is_live(key):
            self.layer.pop(key, None)
            self.layer |= self._before_delete[row][1]

    def _known(self, key: bytes) -> Known | None:
        if key in self.layer:
            image = self.layer[key]
            return None if image is None or is_deleted(image) else known_values(image)
        return self.overlay.known(key)

    def _is_live(self, key: bytes) -> bool | None:
        if key not in self.layer:
            return self.overlay.is_live(key)
        image = self.layer[key]
        return image is not None and not is_deleted(image)

    def _is_mirrored(self, key: bytes) -> bool:
        return self.layer[key] is not None if key in self.layer else self.overlay.is_mirrored(key)
