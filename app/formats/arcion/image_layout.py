"""Image layouts: what `exists` says about the images of a message, worked out once for all equal `exists`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from app.domain.model.change import Operation
from app.domain.rows.row_image import MissingColumns
from app.formats.arcion.messages import FLAGS

_EXISTS: Final = msgspec.json.Decoder(dict[str, str | int])
_PLAIN_FLAGS: Final[Mapping[Operation, Sequence[set[str | int]]]] = {
    Operation.INSERT: [{"1"}, {1}],
    Operation.UPSERT: [{"1"}, {1}],
    Operation.DELETE: [{"2"}, {2}],
}


class NotColumnar(Exception):
    """The body does not qualify for columnar reading; `decode_arcion` has to read it."""


@dataclass(frozen=True, slots=True, eq=False)
class ImageLayout:
    """Where an update has its values, by column position: in `after`, except for the columns named here."""

    kept: Sequence[int] = ()
    """The columns whose value is in `before` only."""
    missing: MissingColumns | None = None
    """The columns that the message does not give."""


COMPLETE: Final = ImageLayout()


@dataclass(slots=True)
class ImageLayoutCache:
    """The layouts of messages for a table of these columns. Updates can omit the `fillable` ones."""

    columns: Sequence[str]
    key_columns: Sequence[str]
    fillable: frozenset[str]
    _known: dict[tuple[Operation, bytes], ImageLayout]

    def look_up(self, operation: Operation, exists: msgspec.Raw) -> ImageLayout:
        """Return the layout. Raises NotColumnar unless `exists` names exactly the columns; KeyError or ValueError."""
        written = (operation, bytes(exists))
        layout = self._known.get(written)
        if layout is None:
            layout = self._known[written] = self._layout(operation, _EXISTS.decode(exists))
        return layout

    def _layout(self, operation: Operation, flags: Mapping[str, str | int]) -> ImageLayout:
        if flags.keys() != {*self.columns}:
            raise NotColumnar
        if operation is Operation.UPDATE:
            return self._layout_of_update([FLAGS[flags[name]] for name in self.columns])
        if {*flags.values()} not in _PLAIN_FLAGS[operation]:
            raise NotColumnar
        return COMPLETE

    def _layout_of_update(self, flags: Sequence[int]) -> ImageLayout:
        missing = tuple(at for at, flag in enumerate(flags) if flag == 0)
        no_old_key = any(flags[self.columns.index(key)] < 2 for key in self.key_columns)
        if no_old_key or any(self.columns[at] not in self.fillable for at in missing):
            raise NotColumnar
        return ImageLayout(
            [at for at, flag in enumerate(flags) if flag == 2],
            MissingColumns(missing, moved=False) if missing else None,
        )
