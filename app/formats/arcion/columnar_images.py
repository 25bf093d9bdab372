"""The images of columnar Arcion messages -> columns of texts that land.

`add` collects the images of messages; then `columns` reads them together, once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, Raw, UnsetType

from app.domain.model.change import Operation
from app.domain.rows.conversion.column_conversion import hold_any
from app.domain.rows.row_image import MissingColumns
from app.domain.rows.typed_columns import chosen_rows
from app.formats.arcion.image_layout import COMPLETE, ImageLayout, ImageLayoutCache, NotColumnar
from app.formats.arcion.messages import OPERATIONS
from app.formats.json.json_to_columns import text_columns

Image: TypeAlias = Raw | UnsetType

_BESIDE: Final = msgspec.json.Decoder(dict[str, str] | None)
_NO_ROW: Final = (Raw(b"null"), Raw(b"{}"))


@dataclass(slots=True)
class _Kind:
    """What messages of one operation have in common while their bytes are equal."""

    operation: Operation
    exists: Raw | None = None
    layout: ImageLayout = COMPLETE
    before: Image | None = None
    before_keys: int = 0


class ColumnarImages:
    """Collects the images of messages with their operations.

    Its methods raise NotColumnar, KeyError for a wrong flag, or ValueError for an incomplete image.
    """

    def __init__(self, columns: Sequence[str], key_columns: Sequence[str], fillable: frozenset[str]) -> None:
        self.operations: list[Operation] = []
        self.missing: dict[int, MissingColumns] = {}
        self.compared: list[Raw] = []
        """Parts other than landing images, checked once for all messages that have the same bytes there."""
        self._columns, self._key_columns = columns, key_columns
        self._landing: list[Raw] = []
        self._beside: list[Raw] = []
        """Other images that must be complete: those before an update, and the row after a delete."""
        self._updated: list[tuple[int, int]] = []
        """Of each update, where its images are in `_landing` and `_beside`."""
        self._kept: dict[ImageLayout, list[tuple[int, int]]] = {}
        """The same of updates that keep columns."""
        self._before_keys = 0
        """Of images beside inserts and replaces."""
        self._kinds = {text: _Kind(operation) for text, operation in OPERATIONS.items()}
        self._layouts = ImageLayoutCache(columns, key_columns, fillable, {})

    @property
    def keys(self) -> int:
        """How many JSON keys images and `exists` have, or fewer."""
        return len(self._columns) * (len(self.operations) + len(self._landing) + len(self._beside)) + self._before_keys

    def add(
        self, operations: Iterable[str], exists: Iterable[Raw], before: Iterable[Image], after: Iterable[Image]
    ) -> None:
        """Add messages: their operations, `exists` flags and images."""
        for text, flags, old, new in zip(operations, exists, before, after, strict=True):
            kind = self._kinds.get(text)
            if kind is None:
                raise NotColumnar
            if flags != kind.exists:
                self._look_at_exists(kind, flags)
            if kind.operation is Operation.DELETE:
                self._add_delete(old, new)
            elif kind.operation is Operation.UPDATE:
                self._add_update(kind.layout, old, new)
            else:
                if old != kind.before:
                    self._look_at_before(kind, old)
                self._before_keys += kind.before_keys
                self._landing.append(_given(new))
            self.operations.append(kind.operation)

    def columns(self) -> list[pa.StringArray]:
        """Return the landing texts of all added messages, by column."""
        landing = text_columns(self._landing, self._columns)
        if self._beside:
            beside = text_columns(self._beside, self._columns)
            self._keep(landing, beside)
            self._compare_keys(landing, beside)
        return self._without_deleted([_with_nulls(texts) for texts in landing])

    def _add_delete(self, before: Image, after: Image) -> None:
        if not self._key_columns:
            raise NotColumnar
        self._landing.append(_given(before))
        if after is not UNSET and after not in _NO_ROW:
            self._beside.append(after)

    def _add_update(self, layout: ImageLayout, before: Image, after: Image) -> None:
        rows = len(self._landing), len(self._beside)
        self._updated.append(rows)
        if layout.kept:
            self._kept.setdefault(layout, []).append(rows)
        if layout.missing is not None:
            self.missing[rows[0]] = layout.missing
        self._landing.append(_given(after))
        self._beside.append(_given(before))

    def _keep(self, landing: list[pa.StringArray], beside: Sequence[pa.StringArray]) -> None:
        for layout, rows in self._kept.items():
            after, before = zip(*rows, strict=True)
            chosen, taken = chosen_rows(len(self._landing), after), pa.array(before)
            for at in layout.kept:
                landing[at] = pc.replace_with_mask(landing[at], chosen, beside[at].take(taken))

    def _compare_keys(self, landing: Sequence[pa.StringArray], beside: Sequence[pa.StringArray]) -> None:
        if not self._updated:
            return
        if not self._key_columns:
            raise NotColumnar
        after, before = (pa.array(rows) for rows in zip(*self._updated, strict=True))
        for key_column in self._key_columns:
            at = self._columns.index(key_column)
            if not landing[at].take(after).equals(beside[at].take(before)):
                raise NotColumnar

    def _without_deleted(self, landing: list[pa.StringArray]) -> list[pa.StringArray]:
        """Return the columns with NULL in all but the key of deleted rows."""
        deleted = [operation is Operation.DELETE for operation in self.operations]
        if not any(deleted):
            return landing
        is_deleted = pa.array(deleted)
        return [
            texts if column in self._key_columns else pc.if_else(is_deleted, None, texts)
            for column, texts in zip(self._columns, landing, strict=True)
        ]

    def _look_at_exists(self, kind: _Kind, exists: Raw) -> None:
        kind.exists, kind.layout = exists, self._layouts.look_up(kind.operation, exists)
        self.compared.append(exists)

    def _look_at_before(self, kind: _Kind, before: Image) -> None:
        """Count the keys of the other image of an insert or a replace; its values are not read."""
        image = None if before is UNSET else _BESIDE.decode(before)
        if kind.operation is Operation.UPSERT and image and not image.keys() <= {*self._columns}:
            raise NotColumnar
        kind.before, kind.before_keys = before, len(image or ())
        if image:
            self.compared.append(_given(before))


def _given(image: Image) -> Raw:
    if image is UNSET:
        raise NotColumnar
    return image


def _with_nulls(texts: pa.StringArray) -> pa.StringArray:
    return pc.if_else(pc.equal(texts, "null"), None, texts) if hold_any(texts, [b"null"]) else texts
