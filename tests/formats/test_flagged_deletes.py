"""A table with `deletes=flag` mirrors the rows of its source and the last values of each deleted row, in every form."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.change import Change
from app.domain.model.names import ROW_MARKER
from app.domain.model.projection import AuditColumns, Deletes
from app.domain.model.table import BatchSequence, with_landing
from app.domain.model.table_options import PartialUpdates, RowImages, TableOptions
from app.domain.model.table_schema import TableSchema
from app.domain.rows.image_overlay import ImageOverlay
from app.domain.rows.landing_projection import landed
from app.domain.rows.landing_rows import LandingRows, landing_rows, landing_rows_of_shaped
from app.domain.rows.row_image import decode_image, is_deleted
from app.domain.rows.row_rules import RowMarker, RowRules
from tests.formats.test_formats_agree import landed_whole
from tests.support.forms.catalogue import FORMS
from tests.support.forms.form import Form
from tests.support.forms.histories import History, histories
from tests.support.forms.reading import check_paths_agree, rows_of, schema
from tests.support.samples.changes import delete, insert, shaped, update, upsert
from tests.support.samples.schemas import active_table, schema_of

FLAG: Final = TableOptions(
    audit_columns=AuditColumns(deleted="is deleted"), deletes=Deletes.FLAG, row_images=RowImages.ON
)
SMALL: Final = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])
Row = tuple[Any, ...]


class FlaggingTable:
    """A table that flags deletes, and what Fabric makes of its rows: the values of each key, and if it is deleted."""

    def __init__(self, source: TableSchema, options: TableOptions) -> None:
        self.table = active_table(with_landing(source, options), options)
        self.rules = RowRules.of(self.table)
        self.overlay = ImageOverlay(self.table, {})
        self.rows: dict[Row, tuple[Row, bool]] = {}
        self._batches = 0

    def stage(self, rows: LandingRows) -> None:
        self._batches += 1
        rows, layer = self.overlay.complete(rows)
        rows.batch.validate(full=True)
        self.overlay.adopt(layer, BatchSequence(self._batches))
        for row in landed(rows, self.table, None).batch.to_pylist():
            self._apply(row)

    def _apply(self, row: dict[str, Any]) -> None:
        """Apply a row as Fabric does, and fail where that would leave two rows with one key, or remove one."""
        schema = self.table.schema
        key = tuple(row[name] for name in schema.key_columns)
        if row[ROW_MARKER] == RowMarker.DELETE:
            assert key not in self.rows
            return
        assert row[ROW_MARKER] != RowMarker.INSERT or key not in self.rows
        self.rows[key] = tuple(row[name] for name in schema.names), row["is deleted"]

    def images(self) -> dict[Row, bool]:
        """Return which keys have an image, and whether that is of a deleted row."""
        names, keys = self.table.schema.names, self.table.schema.key_columns
        found = [image.image for image in self.overlay.written.values() if image is not None]
        values = [{names[at]: value for at, value in decode_image(image).items()} for image in found]
        typed = landing_rows([insert(row) for row in values], self.table.schema).batch.select(keys).to_pylist()
        return {tuple(row.values()): is_deleted(image) for row, image in zip(typed, found, strict=True)}


def options_of(form: Form) -> TableOptions:
    return replace(FLAG, partial_updates=PartialUpdates.COMPLETE) if form.leaves_out else FLAG


@given(name=st.sampled_from([*FORMS]), history=histories())
def test_a_history_leaves_present_and_deleted_rows_in_every_form(name: str, history: History) -> None:
    landed_whole(history)
    form, source = FORMS[name], history.table
    flagging, model = FlaggingTable(schema(source), options_of(form)), dict[Row, tuple[Row, bool]]()
    for changes, request in zip(history.transactions, history.requests(form), strict=True):
        flagging.stage(rows_of(request, source, flagging.rules))
        for change in changes:
            if change.old is not None:
                model[source.key(change.old)] = tuple(change.old.values()), True
            if change.new is not None:
                model[source.key(change.new)] = tuple(change.new.values()), False
        assert flagging.rows == model
    assert flagging.images() == {key: deleted for key, (_, deleted) in model.items()}


@given(name=st.sampled_from([*FORMS]), history=histories())
def test_both_paths_read_what_is_flagged_alike(name: str, history: History) -> None:
    for request in history.requests(FORMS[name]):
        check_paths_agree(request, history.table, options_of(FORMS[name]))


KEYS: Final = st.integers(0, 3)
TEXTS: Final = st.sampled_from(["a", "b", None])
Step = tuple[str, int, str | None]


@given(st.lists(st.lists(st.tuples(st.sampled_from(["I", "U", "D", "R"]), KEYS, TEXTS), min_size=1, max_size=5)))
def test_changes_that_contradict_each_other_never_remove_or_double_a_row(batches: Sequence[Sequence[Step]]) -> None:
    """Repeated inserts and deletes, deletes of unknown keys and updates of deleted rows are among them."""
    flagging, model = FlaggingTable(SMALL, FLAG), dict[Row, tuple[Row, bool]]()
    for steps in batches:
        changes = [_change(index, *step) for index, step in enumerate(steps)]
        rows = landing_rows(changes, flagging.rules)
        columnar = landing_rows_of_shaped([shaped(changes, flagging.table.schema)], flagging.rules)
        assert (columnar[0].batch, columnar[0].images) == (rows.batch, rows.images)
        flagging.stage(rows)
        for operation, key, text in steps:
            if operation != "D":
                model[key,] = (key, text), False
            elif (key,) in model:
                model[key,] = model[key,][0], True
        assert flagging.rows == model


def _change(index: int, operation: str, key: int, text: str | None) -> Change:
    row = {"id": key, "name": text}
    if operation == "D":
        return delete({"id": key}, index)
    return {"I": insert, "R": upsert}[operation](row, index) if operation != "U" else update(None, row, index)
