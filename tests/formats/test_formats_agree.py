"""One history of a source table, written in every form that is read, lands as the same rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from hypothesis import given, note, reject
from hypothesis import strategies as st

from app.domain.model.change import Change, Operation
from app.domain.model.names import ROW_MARKER
from app.domain.model.projection import AuditColumns
from app.domain.model.table import BatchSequence, with_landing
from app.domain.model.table_options import PartialUpdates, TableOptions
from app.domain.rows.image_overlay import ImageOverlay
from app.domain.rows.landing_projection import Acceptance
from app.domain.rows.landing_projection import landed as as_landed
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_image import decode_image
from app.domain.rows.row_rules import RowMarker, RowRules
from mirrorgate.errors import Code, RejectedInput
from tests.support.forms.catalogue import FORMS, FULL_FORMS
from tests.support.forms.form import Form, SourceTable
from tests.support.forms.histories import History, State, histories
from tests.support.forms.reading import HEX, check_paths_agree, metadata_entry, rows_of, schema
from tests.support.forms.values import Row
from tests.support.samples.images import KEEP
from tests.support.samples.schemas import active_table

COMPLETE = TableOptions(partial_updates=PartialUpdates.COMPLETE)
AUDITED = replace(HEX, audit_columns=AuditColumns("operation of it", "time of it", "position of it"))
OPERATION = "operation of it"
"""The name of an audit column; histories have no such column."""
NOW = datetime(2026, 1, 5, tzinfo=UTC)


def staged(history: History, form: Form, options: TableOptions) -> tuple[pa.Table, ImageOverlay]:
    """Return the rows of all transactions, one batch for each, and the row images that they leave."""
    options = replace(options, audit_columns=AuditColumns(operation=OPERATION))
    rules = RowRules(with_landing(schema(history.table), options), options)
    table = active_table(rules.schema, options)
    overlay = ImageOverlay(table, {})
    batches = []
    for number, request in enumerate(history.requests(form), 1):
        rows, layer = overlay.complete(rows_of(request, history.table, rules))
        overlay.adopt(layer, BatchSequence(number))
        batches.append(as_landed(rows, table, Acceptance(BatchSequence(number), NOW)).batch)
    return pa.Table.from_batches(batches, rules.schema.landing.arrow), overlay


def landed(history: History, form: Form, *, complete: bool = False) -> list[dict[str, Any]]:
    """Return the rows of all transactions. With `complete`, row images fill the gaps."""
    rows, _ = staged(history, form, COMPLETE if complete else TableOptions())
    return rows.to_pylist()


def state_of_images(overlay: ImageOverlay, table: SourceTable) -> State:
    """Return the rows that the images are read as."""
    images = [decode_image(image.image) for image in overlay.written.values() if image is not None]
    names = overlay.table.schema.names
    after = [{names[at]: value for at, value in image.items()} for image in images]
    rows = landing_rows(
        [Change(at, Operation.SNAPSHOT, None, values, "", "") for at, values in enumerate(after)],
        overlay.table.schema,
    )
    return {table.key(row): source_row(row, table) for row in rows.batch.to_pylist()}


def source_row(row: Mapping[str, Any], table: SourceTable) -> Row:
    """Return the columns of the source in a landing row."""
    return {name: row[name] for name in table.names}


def applied(rows: Sequence[Mapping[str, Any]], table: SourceTable) -> State:
    """Apply landing rows to an empty table as mirroring does."""
    state: State = {}
    for row in rows:
        marker = RowMarker(row[ROW_MARKER])
        values = source_row(row, table)
        key = table.key(values)
        if marker is RowMarker.DELETE:
            assert {name for name, value in values.items() if value is not None} == {*table.keys}
            del state[key]
        else:
            assert (key in state) is (marker is RowMarker.UPDATE)
            state[key] = values
    return state


def landed_whole(history: History) -> list[dict[str, Any]]:
    """Return the rows of Arcion's full images, without histories in which equal rows exchange keys in one request."""
    try:
        return landed(history, FORMS["arcion json"])
    except RejectedInput as error:
        assert error.code is Code.AMBIGUOUS_KEY_CHANGE
        reject()


@given(history=histories())
def test_a_history_lands_the_same_rows_in_every_form_which_make_the_sources_state(history: History) -> None:
    full = landed_whole(history)
    for name, form in FORMS.items():
        note(f"written as {name}")
        assert landed(history, form, complete=form.leaves_out) == full
    assert applied(full, history.table) == history.state


@given(history=histories())
def test_both_paths_read_every_form_alike(history: History) -> None:
    for name, form in FORMS.items():
        note(f"written as {name}")
        options = replace(AUDITED, partial_updates=COMPLETE.partial_updates) if form.leaves_out else AUDITED
        for request in history.requests(form):
            check_paths_agree(request, history.table, options)


@given(history=histories())
def test_metadata_declares_the_schema_that_the_table_is_registered_with(history: History) -> None:
    columns = [replace(c, declared="string") if c.kind == "json" else c for c in history.table.columns]
    assert metadata_entry(history.table).schema == schema(replace(history.table, columns=columns))


@given(name=st.sampled_from([*FULL_FORMS]), history=histories())
def test_row_images_that_full_images_leave_are_the_sources_state(name: str, history: History) -> None:
    landed_whole(history)
    rows, overlay = staged(history, FORMS[name], KEEP)
    assert rows.to_pylist() == landed(history, FORMS[name])
    assert state_of_images(overlay, history.table) == history.state


@given(name=st.sampled_from([*FULL_FORMS]), history=histories())
def test_full_images_land_alike_whether_or_not_partial_updates_are_completed(name: str, history: History) -> None:
    landed_whole(history)
    assert landed(history, FORMS[name], complete=True) == landed(history, FORMS[name])
