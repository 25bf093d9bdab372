"""One history of a source table, written by each tool in each of its forms, lands as the same rows."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from app.domain.model.names import ROW_MARKER, TableName
from app.domain.model.table import BatchSequence, Generation, Table, TableId, TableState
from app.domain.model.table_options import PartialUpdates, TableOptions
from app.domain.model.table_schema import SchemaVersion
from app.domain.rows.image_overlay import ImageOverlay
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_rules import RowMarker, RowRules
from app.formats.replicate.messages import decode_replicate
from tests.support.samples.renderings import (
    Rendering,
    arcion_csv,
    arcion_full,
    arcion_partial,
    described,
    replicate,
    schema,
)
from tests.support.samples.source_histories import History, SourceTable, State, histories


def landed(history: History, render: Rendering, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of all transactions, each a batch of its own; gaps are filled from the rows before."""
    chosen = TableOptions(**options)
    name, rules = TableName.parse("S.T"), RowRules(schema(history.table), chosen)
    place = (TableId(1), name, Generation(1), TableState.ACTIVE, SchemaVersion(1))
    overlay = ImageOverlay(Table(*place, rules.schema, chosen), {})
    batches = []
    for number, events in enumerate(history.transactions, 1):
        rows, layer = overlay.complete(landing_rows(render(history.table, events), rules))
        overlay.adopt(layer, BatchSequence(number))
        batches.append(rows.batch)
    found: list[dict[str, Any]] = pa.Table.from_batches(batches, rules.schema.arrow).to_pylist()
    return found


def applied(rows: Sequence[dict[str, Any]], table: SourceTable) -> State:
    """Apply landing rows to an empty table as mirroring does."""
    state: State = {}
    for row in rows:
        marker = RowMarker(row[ROW_MARKER])
        values = tuple(row[name] for name in table.types)
        key = table.key(values)
        if marker is RowMarker.DELETE:
            assert values[table.keys :] == (None,) * (len(values) - table.keys)
            del state[key]
        else:
            assert (key in state) is (marker is RowMarker.UPDATE)
            state[key] = values
    return state


@given(history=histories())
def test_every_way_of_telling_a_history_lands_the_same_rows_which_make_the_sources_state(history: History) -> None:
    full = landed(history, arcion_full)
    assert landed(history, arcion_partial, partial_updates=PartialUpdates.COMPLETE) == full
    assert landed(history, arcion_csv) == full
    assert landed(history, replicate) == full
    assert applied(full, history.table) == history.state


@given(history=histories())
def test_metadata_declares_the_schema_that_the_table_is_registered_with(history: History) -> None:
    [entry] = decode_replicate(json.dumps([described(history.table)]).encode()).metadata
    assert entry.schema == schema(history.table)


@pytest.mark.parametrize("render", [arcion_full, arcion_csv, replicate])
@given(history=histories())
def test_full_images_land_alike_whether_or_not_partial_updates_are_completed(
    render: Rendering, history: History
) -> None:
    assert landed(history, render, partial_updates=PartialUpdates.COMPLETE) == landed(history, render)
