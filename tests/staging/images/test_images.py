"""Row images after a kill, of every form of message, and their size."""

import itertools
import random
from typing import Final

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.model.change import Change
from app.domain.model.names import ROW_MARKER
from app.domain.model.table import BatchSequence, Table
from app.domain.rows.landing_rows import LandingRows
from app.domain.rows.row_image import StoredImage
from app.domain.rows.row_rules import RowMarker, RowRules
from app.staging.batches.batch import Batch, StagingRequest
from app.staging.batches.row_images import write_row_images
from app.staging.batches.stage_transaction import encode_blocks, stage_requests
from app.staging.tables.status import ImagesSize, all_images, image_sizes
from mirrorgate.errors import Code, RejectedInput
from tests.support.backfills import ask
from tests.support.forms.catalogue import FULL_FORMS
from tests.support.forms.form import SourceTable
from tests.support.forms.histories import History, State, histories
from tests.support.forms.reading import rows_of, schema
from tests.support.gateway_parts import current, registered, stage, typed
from tests.support.postgres import sql
from tests.support.processes import read_line, started
from tests.support.samples.changes import delete, insert, update
from tests.support.samples.images import KEEP, rows_of_images
from tests.support.samples.schemas import schema_of

KEYS: Final = 300
SEEDS: Final = range(5)
SCHEMA: Final = schema_of({"id": "int64", "name": "string", "at": "timestamp", "total": "decimal(9,2)"}, ["id"])


class Source:
    """A source that sends the same changes to two tables."""

    def __init__(self, engine: sa.Engine, seed: int) -> None:
        self.engine, self.random, self.keys = engine, random.Random(seed), set[int]()  # no secret

    def send(self, changes: int) -> None:
        sent: list[Change] = []
        for at in range(changes):
            key = self.random.randrange(KEYS)
            new = {"id": key, "name": f"{key} {self.random.random()}", "at": "2026-01-02 03:04:05", "total": "1.50"}
            if key not in self.keys:
                sent.append(insert(new, at))
                self.keys.add(key)
            elif self.random.random() < 0.7:
                sent.append(update(None, new, at))
            else:
                sent.append(delete({"id": key}, at))
                self.keys.remove(key)
        for name in ("kept", "late"):
            stage(self.engine, [typed(current(self.engine, name), sent)])


@pytest.mark.thorough
@pytest.mark.parametrize("seed", SEEDS)
def test_the_images_are_those_that_were_kept_from_the_start(engine: sa.Engine, seed: int) -> None:
    registered(engine, "kept", SCHEMA, KEEP)
    registered(engine, "late", SCHEMA)
    source = Source(engine, seed)
    for _ in range(5):
        source.send(100)
    registered(engine, "late", None, KEEP)
    source.send(100)
    ask(engine, "late")
    url = engine.url.render_as_string(hide_password=False)
    kills = 0
    while not current(engine, "late").images_complete:
        with started("tests.staging.images.killed_backfill", url, "late", 7) as process:
            for _ in range(source.random.randrange(1, 25)):
                if read_line(process) == "done":
                    process.wait()
                    break
            process.kill()
            process.wait()
        kills += 1
        source.send(3)
    assert kills > 1
    assert rows_of_images(engine, current(engine, "late")) == rows_of_images(engine, current(engine, "kept"))


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


NAMED = schema_of({"id": "int64", "name": "string"}, ["id"])


def size_of(engine: sa.Engine, table: Table) -> ImagesSize:
    return sql.call(engine, image_sizes, [table.table_id])[table.table_id]


def write(engine: sa.Engine, table: Table, count: int) -> None:
    images = {b"%d" % key: StoredImage(b"x" * 200, BatchSequence(1)) for key in range(count)}
    sql.call(engine, write_row_images, table.table_id, table.generation, images)


def test_few_images_are_counted_table_by_table(engine: sa.Engine) -> None:
    table, other = registered(engine, "t", NAMED, KEEP), registered(engine, "other", NAMED, KEEP)
    assert size_of(engine, table) == ImagesSize(is_complete=True, rows=0, is_exact=True, bytes=0)
    write(engine, table, 7)
    write(engine, other, 3)
    found = size_of(engine, table)
    assert (found.rows, found.is_exact) == (7, True)
    assert found.bytes >= 7 * 200
    assert size_of(engine, other).rows == 3


def test_many_images_are_estimated_near_what_postgres_has_on_disk(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.staging.tables.status.MAX_COUNTED", 100)
    table, other = registered(engine, "t", NAMED, KEEP), registered(engine, "other", NAMED, KEEP)
    write(engine, table, 6_000)
    write(engine, other, 2_000)
    assert size_of(engine, table).rows == 101  # no statistics yet
    sql.run(engine, "ANALYZE mirrorgate.row_images")
    found = size_of(engine, table)
    assert found.rows == pytest.approx(6_000, rel=0.05)
    assert not found.is_exact
    everything = sql.call(engine, all_images)
    assert everything.rows == 8_000
    assert found.bytes + size_of(engine, other).bytes == pytest.approx(everything.bytes, rel=0.25)


def test_a_table_that_began_to_keep_images_later_is_not_complete(engine: sa.Engine) -> None:
    table = registered(engine, "t", NAMED)
    stage(engine, [typed(table, [insert({"id": 1, "name": "Ada"})])])
    assert not size_of(engine, registered(engine, "t", None, KEEP)).is_complete
