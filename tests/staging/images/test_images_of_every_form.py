"""The row images of a table equal the model after each request, in any format, with rollbacks in between."""

import itertools
from typing import Final

import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.model.names import ROW_MARKER
from app.domain.model.table import Table
from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.row_rules import RowMarker, RowRules
from app.staging.batches.batch import Batch, StagingRequest
from app.staging.batches.stage_transaction import encode_blocks, stage_requests
from mirrorgate.errors import Code, RejectedInput
from tests.support.forms.catalogue import FULL_FORMS
from tests.support.forms.form import SourceTable
from tests.support.forms.histories import History, State, histories
from tests.support.forms.reading import rows_of, schema
from tests.support.gateway_parts import current, registered
from tests.support.samples.images import KEEP, rows_of_images

_NAMES: Final = (f"t{number}" for number in itertools.count())


def apply(state: State, rows: LandingRows, table: SourceTable) -> None:
    """Apply landing rows to a state as mirroring does."""
    for row in rows.batch.to_pylist():
        if row[ROW_MARKER] == RowMarker.DELETE:
            del state[table.key(row)]
        else:
            state[table.key(row)] = {name: row[name] for name in table.names}


def state_of_images(engine: sa.Engine, table: Table, of: SourceTable) -> State:
    rows = [dict(zip(table.schema.names, values, strict=True)) for values in rows_of_images(engine, table).values()]
    return {of.key(row): row for row in rows}


def stage_once(engine: sa.Engine, batch: Batch, *, dies: bool) -> None:
    """Stage a request in one transaction, which is rolled back if its process dies."""
    requests = [StagingRequest([batch])]
    with engine.connect() as connection, connection.begin() as transaction:
        stage_requests(connection, requests, encode_blocks(requests))
        if dies:
            transaction.rollback()


@given(history=histories(), draw=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_images_are_the_rows_after_each_request(engine: sa.Engine, history: History, draw: st.DataObject) -> None:
    name = next(_NAMES)
    registered(engine, name, schema(history.table), KEEP)
    state: State = {}
    requests = [history.requests(form) for form in FULL_FORMS.values()]
    for spellings in zip(*requests, strict=True):
        table = current(engine, name)
        try:
            rows = rows_of(draw.draw(st.sampled_from(spellings)), history.table, RowRules.of(table))
        except RejectedInput as error:
            assert error.code is Code.AMBIGUOUS_KEY_CHANGE
            return
        if not rows.rows:
            continue
        if draw.draw(st.booleans()):
            stage_once(engine, Batch(table, rows), dies=True)
            assert state_of_images(engine, table, history.table) == state
        stage_once(engine, Batch(table, rows), dies=False)
        apply(state, rows, history.table)
        assert state_of_images(engine, table, history.table) == state
