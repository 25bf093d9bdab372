"""Completing partial updates: the row images of one table as the batches of one transaction see and leave them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.change import SourceValue
from app.domain.column_conversion import convert
from app.domain.json_pointer import pointer_to
from app.domain.landing_rows import LandingRows
from app.domain.row_image import (
    ImageRows,
    IncompleteRow,
    Known,
    StoredImage,
    decode_image,
    encode_image,
    known_values,
    missing_of,
)
from app.domain.table import BatchSequence, Table
from app.domain.typed_columns import chosen_rows
from app.domain.value_reading import reading_of
from app.errors import Code, Problem, RejectedInput

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
    written: dict[bytes, StoredImage | None] = field(default_factory=dict)
    """What is to be stored in the end; None: nothing under this key any more."""

    def complete(self, rows: LandingRows) -> tuple[LandingRows, Layer]:
        """The rows without gaps, and what they leave. The overlay itself stays as it is, see `adopt`.

        Raises RejectedInput `incomplete_update` naming each column that no image gives.
        """
        images = rows.images
        if images is None:
            return rows, {}
        if not images.incomplete:
            return rows, dict(zip(images.keys, images.images, strict=True))
        layer, filled = self._walk(images)
        ordinals = {ordinal for gap in {entry.gap for entry in images.incomplete.values()} for ordinal in gap.ordinals}
        return replace(rows, batch=self._filled(rows.batch, filled, ordinals)), layer

    def adopt(self, layer: Layer, sequence: BatchSequence) -> None:
        """Put what a batch leaves over the rest, once the batch is sure to be staged."""
        for key, image in layer.items():
            self.written[key] = None if image is None else StoredImage(image, sequence)

    def _walk(self, images: ImageRows) -> tuple[Layer, Filled]:
        """A change that cannot be completed leaves nothing: those after it are judged as if it were not there."""
        layer: dict[bytes, bytes | None] = {}
        filled: Filled = {}
        problems: list[Problem] = []
        deleted: Known = ()
        deleted_key = b""
        before_delete: Layer = {}
        for row, (key, image) in enumerate(zip(images.keys, images.images, strict=True)):
            incomplete = images.incomplete.get(row)
            if incomplete is None:
                if image is None:
                    deleted, before_delete = self._known(key, layer), {key: layer[key]} if key in layer else {}
                    deleted_key = key
                layer[key] = image
                continue
            known = deleted if incomplete.gap.moved else self._known(key, layer)
            ordinals = incomplete.gap.ordinals
            if missing := missing_of(ordinals, known):
                problems.extend(self._problem(incomplete, ordinal) for ordinal in missing)
                if incomplete.gap.moved:  # the row under its old key is as it was
                    del layer[deleted_key]
                    layer |= before_delete
                continue
            values = list(incomplete.values)
            for ordinal in ordinals:
                values[ordinal] = known[ordinal]
            filled[row] = values
            layer[key] = encode_image(values, incomplete.unknown)
        if problems:
            raise RejectedInput.of(tuple(problems))
        return layer, filled

    def _known(self, key: bytes, layer: Layer) -> Known:
        """The values of the row with this key as the batches before and this one so far leave it."""
        if key in layer:
            image = layer[key]
            return () if image is None else known_values(image)
        stored = self.written[key] if key in self.written else self.stored.get(key)
        if stored is None:
            return ()
        if not self.table.returned_columns:
            return known_values(stored.image)
        values = decode_image(stored.image)
        for name, since in self.table.returned_columns.items():
            if stored.sequence <= since:
                values.pop(self.table.schema.names.index(name), None)
        return values

    def _problem(self, incomplete: IncompleteRow, ordinal: int) -> Problem:
        column = self.table.schema.names[ordinal]
        detail = "new value not given, and no row image holds the old one"
        pointer = pointer_to(incomplete.pointer, column)
        return Problem(Code.INCOMPLETE_UPDATE, detail, incomplete.message, pointer, column)

    def _filled(self, batch: pa.RecordBatch, filled: Filled, ordinals: Collection[int]) -> pa.RecordBatch:
        """The batch with the values of these rows in these columns: what was given there becomes what it was."""
        columns, values = list(batch.columns), list(zip(*filled.values(), strict=True))
        mask = chosen_rows(batch.num_rows, filled)
        for ordinal in ordinals:
            column = self.table.schema.columns[ordinal]
            array = convert(values[ordinal], column.type, reading_of(column.name, self.table.options))
            columns[ordinal] = pc.replace_with_mask(columns[ordinal], mask, array)
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
