"""What `exists` says about the images of a message: worked out once for all messages with the same bytes there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from app.domain.model.change import Operation
from app.domain.model.written_number import keep_minus_zeros
from app.domain.rows.shaped_changes import Shape
from app.formats.arcion.messages import ALL_AFTER, FLAGS, OPERATIONS
from app.formats.json.quote_accounting import is_all_read
from app.formats.json.texts import has_suspicious_escape
from app.formats.not_columnar import NotColumnar

_EXISTS: Final = msgspec.json.Decoder(dict[str, str | int])
_MAX_CACHED: Final = 1_024
MAX_CACHED_BYTES: Final = 2**12
"""Bytes of a part of a message that is kept, so that blanks in it cannot fill the memory."""

_BEFORE, _AFTER = 2, 1
_FORBIDDEN: Final = {Operation.INSERT: _BEFORE, Operation.DELETE: _AFTER}
"""The flag that must not be the only one: an insert has no image before, a delete none after."""


@dataclass(frozen=True, slots=True, eq=False)
class MessageLayout:
    """The shape of a message, and where its images must have values, by column position."""

    shape: Shape
    before: Sequence[int]
    after: Sequence[int]
    unlisted: Sequence[int]
    """Columns without a flag: no image may have them."""
    ignores_before: bool
    """True if the image before the change can have any columns: nothing of an insert with plain flags is there."""

    def fits_full(self, before: object, after: object) -> bool:
        """Tell whether the images that the flags name are there; each has all columns, and all columns are listed."""
        return (before is not None or not self.before) and (after is not None or not self.after)

    def fits(self, before: Sequence[object] | None, after: Sequence[object] | None) -> bool:
        """Tell whether images with UNSET for what they lack have exactly what the flags say."""
        given = [before[at] for at in self.before] if before else [UNSET] * len(self.before)
        given += [after[at] for at in self.after] if after else [UNSET] * len(self.after)
        images = [image for image in (before, after) if image]
        return UNSET not in given and all(image[at] is UNSET for image in images for at in self.unlisted)


@dataclass(slots=True)
class MessageLayouts:
    """The layouts of the messages of a table with these columns, by operation and `exists`."""

    columns: Sequence[str]
    _known: dict[tuple[str, bytes], MessageLayout] = field(default_factory=dict)

    def look_up(self, operation: str, exists: Raw) -> MessageLayout:
        """Return the layout. Raises NotColumnar for flags that the exact path must reject or knows better."""
        written = (operation, bytes(exists))
        layout = self._known.get(written)
        if layout is None:
            if len(self._known) >= _MAX_CACHED:
                self._known.clear()
            layout = self._layout(*written)
            if len(exists) <= MAX_CACHED_BYTES:
                self._known[written] = layout
        return layout

    def _layout(self, text: str, exists: bytes) -> MessageLayout:
        operation, written = OPERATIONS.get(text), _EXISTS.decode(keep_minus_zeros(exists))
        if operation is None or not is_all_read(exists, [written]) or has_suspicious_escape(exists):
            raise NotColumnar
        flags = {name: FLAGS.get(flag) for name, flag in written.items()}
        if None in flags.values() or not flags.keys() <= {*self.columns}:
            raise NotColumnar
        before = frozenset(name for name, flag in flags.items() if flag and flag & _BEFORE)
        after = frozenset(name for name, flag in flags.items() if flag and flag & _AFTER)
        forbidden = _FORBIDDEN.get(operation)
        if (forbidden == _BEFORE and before) or (forbidden == _AFTER and after - before):
            raise NotColumnar
        kept = frozenset() if operation is Operation.DELETE else before - after
        shape = Shape(
            operation,
            None if operation is Operation.INSERT else before,
            None if operation is Operation.DELETE else after | kept,
            kept,
        )
        at = {name: position for position, name in enumerate(self.columns)}
        return MessageLayout(
            shape,
            [at[name] for name in before],
            [at[name] for name in after],
            [at[name] for name in self.columns if name not in flags],
            operation is Operation.INSERT and {*written.values()} in ALL_AFTER,
        )
