"""What `exists` says of the images of plain Arcion messages, once for all messages in which it is written alike."""

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
    """`decode_arcion` must read this body."""


@dataclass(frozen=True, slots=True, eq=False)
class ImageLayout:
    """Where the values of an update stand, by column position: after it, but for those named here."""

    kept: Sequence[int] = ()
    """The columns whose value stands in `before` alone."""
    missing: MissingColumns | None = None
    """The columns that stand nowhere."""


COMPLETE: Final = ImageLayout()


@dataclass(slots=True)
class ImageLayoutCache:
    """The layouts of messages for a table of these columns, of which an update need not give the `fillable` ones."""

    columns: Sequence[str]
    key_columns: Sequence[str]
    fillable: frozenset[str]
    _known: dict[tuple[Operation, bytes], ImageLayout]

    def look_up(self, operation: Operation, exists: msgspec.Raw) -> ImageLayout:
        """Raises NotColumnar unless it names every column and no other; KeyError or ValueError where it is wrong."""
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
