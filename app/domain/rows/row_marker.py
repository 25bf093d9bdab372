"""Row markers: what `__rowMarker__` tells Fabric to do with a landing row."""

from enum import IntEnum

from app.domain.model.change import Operation
from app.domain.model.table_options import InsertMarker, TableOptions


class RowMarker(IntEnum):
    """Values of `__rowMarker__`."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2
    UPSERT = 4


def markers_under(options: TableOptions) -> dict[Operation, RowMarker]:
    """Return the marker of each operation's row, if the key has not changed."""
    inserted = RowMarker.UPSERT if options.insert_marker is InsertMarker.UPSERT else RowMarker.INSERT
    return {
        Operation.INSERT: inserted,
        Operation.SNAPSHOT: inserted,
        Operation.UPDATE: RowMarker.UPDATE,
        Operation.DELETE: RowMarker.DELETE,
        Operation.UPSERT: RowMarker.UPSERT,
    }
