"""Decides how rows land while a load session is open.

A row of the load lands if the stream has not changed its key since the load began. An insert of the load or of the
stream becomes an upsert if its key has a row: the source may have had the row when the load read it.
"""

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.row_image import ImageRows
from app.domain.rows.row_rules import RowMarker
from mirrorgate.errors import Code, RejectedInput

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
