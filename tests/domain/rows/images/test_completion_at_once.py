"""Completing all partial updates of a batch at once gives what completing them row by row gives."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.change import Change
from app.domain.model.names import TableName
from app.domain.model.table import BatchSequence, Generation, Table, TableId, TableState
from app.domain.model.table_options import PartialUpdates, TableOptions
from app.domain.model.table_schema import SchemaVersion
from app.domain.rows import image_overlay
from app.domain.rows.image_overlay import ImageOverlay
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_image import StoredImage
from app.domain.rows.row_rules import RowRules
from app.errors import RejectedInput
from tests.support.samples.changes import delete, insert, update
from tests.support.samples.schemas import schema_of

SCHEMA: Final = schema_of({"id": "int64", "name": "string", "total": "decimal(9,2)", "note": "json"}, ["id"])
TABLE: Final = Table(
    TableId(1),
    TableName.parse("t"),
    Generation(1),
    TableState.ACTIVE,
    SchemaVersion(1),
    SCHEMA,
    TableOptions(partial_updates=PartialUpdates.COMPLETE),
)
IMAGES: Final = st.sampled_from(
    [
        b'[%d,"Ada","1.5",null]',
        b'[%d,null,2.50,{"a":[1e2]}]',
        b'[%d,"null",null,"[]"]',
        b'[%d,"old"]',
        b'{"-1":4,"0":%d}',
    ]
)
KEYS: Final = st.integers(0, 5)
VALUES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "name": st.sampled_from(["Eve", None]),
    "total": st.sampled_from(["3", 4, None]),
    "note": st.sampled_from(["{}", None]),
}


@st.composite
def changes(draw: st.DrawFn) -> list[Change]:
    keys = draw(st.lists(KEYS, min_size=1, max_size=4, unique=draw(st.booleans())))
    found = []
    for index, key in enumerate(keys):
        given_names = draw(st.sets(st.sampled_from(sorted(VALUES))))
        row = {"id": key, **{name: draw(VALUES[name]) for name in sorted(given_names)}}
        kind = draw(st.sampled_from(["update", "update", "update", "update", "insert", "delete"]))
        if kind == "update":
            found.append(update(None, row, index))
        else:
            found.append(insert(row, index) if kind == "insert" else delete(row, index))
    return found


def outcome(stored: dict[bytes, StoredImage], written: dict[int, bytes], given_changes: list[Change]) -> Any:
    overlay = ImageOverlay(TABLE, stored)
    overlay.adopt({str(key).encode(): image for key, image in written.items()}, BatchSequence(2))
    try:
        rows, layer = overlay.complete(landing_rows(given_changes, RowRules.of(TABLE)))
    except RejectedInput as rejection:
        return rejection.problems, overlay.completed.size
    rows.batch.validate(full=True)
    return rows.batch.to_pylist(), dict(layer), rows.repeated_inserts, overlay.completed.size


@given(
    stored=st.dictionaries(KEYS, IMAGES, min_size=2),
    written=st.dictionaries(KEYS, IMAGES, max_size=2),
    given_changes=changes(),
)
def test_rows_that_do_not_depend_on_each_other_are_completed_at_once_as_one_by_one(
    stored: dict[int, bytes], written: dict[int, bytes], given_changes: list[Change]
) -> None:
    images = {str(key).encode(): StoredImage(image % key, BatchSequence(1)) for key, image in stored.items()}
    overlaid = {key: image % key for key, image in written.items()}
    found = outcome(images, overlaid, given_changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_overlay._Walk, "run_at_once", lambda _: False)
        assert outcome(images, overlaid, given_changes) == found
