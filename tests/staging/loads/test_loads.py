"""Load sessions: random interleavings with the stream equal a model, and what an ended load leaves."""

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from app.domain.loads import LoadId, LoadSession, LoadState, LoadStep
from app.domain.model.change import Change, Operation
from app.domain.model.projection import AuditColumns, Comparison, Deletes, RowFilter
from app.domain.model.table import Table
from app.domain.model.table_options import RowImages, TableOptions
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_image import decode_image
from app.domain.rows.row_rules import RowRules
from app.staging.batches.batch import Batch, StagingRequest
from app.staging.batches.stage_transaction import StagingOutcome, encode_blocks, stage_requests
from app.staging.images import image_snapshot
from app.staging.loads import (
    abort_load,
    begin_completion,
    begin_load,
    end_stale_loads,
    finish_completion,
    next_unseen,
    note_scanned,
)
from app.staging.tables.registration import register_table
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import LoadMode
from tests.support.gateway_parts import current, registered
from tests.support.postgres import sql
from tests.support.rejections import rejected as rejection
from tests.support.samples.changes import change, delete, update, upsert
from tests.support.samples.images import COMPLETE, KEEP, staged_batches
from tests.support.samples.schemas import schema_of
from tests.support.waiting import wait_until

SCHEMA: Final = schema_of({"id": "int64", "value": "int64"}, ["id"])
FILTERED: Final = TableOptions(
    row_images=RowImages.ON, filter=RowFilter(column="value", op=Comparison.GREATER, value="0")
)
FLAGGED: Final = TableOptions(
    row_images=RowImages.ON, deletes=Deletes.FLAG, audit_columns=AuditColumns(deleted="is deleted")
)
KEYS: Final = range(3)
_NAMES: Final = (f"t{number}" for number in itertools.count())
_IDS: Final = (LoadId(str(UUID(int=number))) for number in itertools.count(1))


class Crash(Exception):
    """The process dies before COMMIT."""


@dataclass(frozen=True)
class Request:
    """What one request does: changes of the stream, or rows of the load."""

    changes: Sequence[tuple[str, int, int]]
    """Kind, key, and the value or the new key."""
    of_load: bool

    def written(self, value: int) -> list[Change]:
        made = []
        for index, (kind, key, other) in enumerate(self.changes):
            row = {"id": key, "value": value + index}
            if kind == "delete":
                made.append(delete({"id": key}, index))
            elif kind == "move":
                made.append(update({"id": key}, {"id": other, "value": value + index}, index))
            elif kind in {"snapshot", "insert"}:
                made.append(change(Operation(kind), None, row, index))
            else:
                made.append(upsert(row, index))
        return made


@dataclass
class Model:
    """The rows of the mirror, and what the open load has seen."""

    rows: dict[int, int] = field(default_factory=dict)
    touched: set[int] = field(default_factory=set)
    """Keys that the stream has changed since the load began."""
    loaded: set[int] = field(default_factory=set)

    def begin(self) -> None:
        self.touched, self.loaded = set(), set()

    def possible(self, request: Request, *, repeats_inserts: bool) -> Request:
        """Return the request without moves and inserts that no source with a unique key could make."""
        rows = {*self.rows}
        kept = []
        for kind, key, other in request.changes:
            if kind == "move" and (key not in rows or other in rows):
                continue
            if kind == "insert" and key in rows and not (request.of_load or repeats_inserts):
                continue
            rows = rows - {key} if kind in {"delete", "move"} else rows | {key}
            rows = rows | {other} if kind == "move" else rows
            kept.append((kind, key, other))
        return Request(kept, request.of_load)

    def apply(self, request: Request, value: int) -> None:
        for index, (kind, key, other) in enumerate(request.changes):
            if request.of_load:
                if key not in self.touched:
                    self.rows[key] = value + index
                    self.loaded.add(key)
                continue
            self.touched.add(key)
            if kind in {"delete", "move"}:
                self.rows.pop(key, None)
            if kind == "move":
                self.touched.add(other)
            if kind != "delete":
                self.rows[other if kind == "move" else key] = value + index

    def remove(self, keys: set[int]) -> int:
        """Remove those of these rows that were not seen, which an abort does not bring back; return how many."""
        gone = keys - self.touched - self.loaded
        self.rows = {key: value for key, value in self.rows.items() if key not in gone}
        return len(gone)

    def complete(self) -> None:
        self.rows = {key: value for key, value in self.rows.items() if key in self.touched | self.loaded}


STREAM: Final = st.tuples(
    st.sampled_from(["upsert", "upsert", "insert", "delete", "delete", "move"]),
    st.sampled_from(KEYS),
    st.sampled_from(KEYS),
)
LOADED: Final = st.tuples(st.sampled_from(["upsert", "insert", "snapshot"]), st.sampled_from(KEYS), st.just(0))
REQUESTS: Final = st.one_of(
    st.builds(Request, st.lists(STREAM, min_size=1, max_size=3), st.just(False)),
    st.builds(Request, st.lists(LOADED, min_size=1, max_size=3), st.just(True)),
)
TOGETHER: Final = st.lists(REQUESTS, min_size=1, max_size=3)
"""Requests of one transaction."""

_OTHERS: Final = ["complete", "delete", "begin append", "abort", "expire"]
STEPS: Final = st.tuples(
    st.sampled_from(["stage"] * 16 + ["begin full"] * 4 + _OTHERS),
    TOGETHER,
    st.sampled_from([False, False, False, True]),
)
"""A step, the requests that it stages or that are staged in the middle of it, and whether the process dies there."""


@dataclass
class Gateway:
    """A table with its loads, driven through the real staging transaction."""

    engine: sa.Engine
    table: Table
    model: Model = field(default_factory=Model)
    load: LoadSession | None = None
    values: Iterator[int] = field(
        default_factory=lambda: (at if at % 20 == 1 else -at for at in itertools.count(1, 10))
    )

    def stage(self, wanted: Sequence[Request], *, crash: bool) -> None:
        """Stage requests in one transaction, which may crash.

        Before the first change, in one each: a snapshot row behind a change of its transaction would be typed again.
        """
        if self.table.cdc_started:
            self._stage(wanted, crash=crash)
            return
        for each in wanted:
            self._stage([each], crash=crash)

    def _stage(self, wanted: Sequence[Request], *, crash: bool) -> None:
        requests, expected, model = [], [], Model({**self.model.rows}, {*self.model.touched}, {*self.model.loaded})
        for each in wanted:
            if each.of_load and self.load is None:
                continue
            repeats = self.table.options.reads_images or self.load is not None
            request, value = model.possible(each, repeats_inserts=repeats), next(self.values)
            is_over = request.of_load and self.load is not None and self.load.state is not LoadState.OPEN
            if not request.changes:
                continue
            if not is_over:
                model.apply(request, value)
            requests.append(self.request(request, value))
            expected.append(is_over)
        if not requests:
            return
        try:
            for outcome, is_over in zip(self._transaction(requests, crash=crash), expected, strict=True):
                assert isinstance(outcome, RejectedInput if is_over else list), outcome
                assert not isinstance(outcome, RejectedInput) or outcome.code is Code.LOAD_ENDED
        except Crash:
            return
        self.model = model

    def request(self, request: Request, value: int) -> StagingRequest:
        rows = landing_rows(request.written(value), RowRules.of(self.table, in_load=request.of_load))
        step = LoadStep(self.load.load_id) if request.of_load and self.load else None
        return StagingRequest([Batch(self.table, rows)], load=step)

    def begin(self, mode: LoadMode) -> None:
        with self.engine.begin() as connection:
            if self.load is not None:
                with pytest.raises(RejectedInput, match=Code.LOAD_OPEN):
                    begin_load(connection, self.table.name, next(_IDS), mode, 60.0, "test")
                return
            self.load, _ = begin_load(connection, self.table.name, next(_IDS), mode, 60.0, "test")
        self.model.begin()

    def abort(self) -> None:
        if self.load is not None:
            assert (
                sql.call(self.engine, abort_load, self.table.name, self.load.load_id, "test").state is LoadState.ABORTED
            )
            self.forget()

    def expire(self) -> None:
        if self.load is not None:
            past = "UPDATE mirrorgate.loads SET expires_at = clock_timestamp() WHERE load_id = CAST(:load AS uuid)"
            sql.run(self.engine, past, load=self.load.load_id)
            assert sql.call(self.engine, end_stale_loads) == 1
            self.forget()

    def delete_some(self, between: Sequence[Request], *, crash: bool) -> None:
        """Do one step of completing the load; the stream writes before the deletes that were found are staged."""
        if self.load is not None and self._is_completed(between, crash=crash):
            if self.load.mode is LoadMode.FULL:
                self.model.complete()
            self.forget()

    def complete(self, between: Sequence[Request], *, crash: bool) -> None:
        while self.load is not None:
            self.delete_some(between, crash=crash)
            between, crash = (), False

    def _is_completed(self, between: Sequence[Request], *, crash: bool) -> bool:
        with self.engine.begin() as connection:
            self.load = begin_completion(connection, self.table.name, self.load.load_id, "test")
            if self.load.state is LoadState.COMPLETED:
                return True
            page = next_unseen(connection, self.table, self.load, keys=2)
            if page.scanned_through is None:
                finish_completion(connection, self.table.name, self.load.load_id, "test")
                return True
            if page.rows is None:
                note_scanned(connection, self.load, page.scanned_through)
                return False
        step = LoadStep(self.load.load_id, removes=True, scanned_through=page.scanned_through)
        self.stage([request for request in between if not request.of_load], crash=False)
        try:
            [outcome] = self._transaction([StagingRequest([Batch(self.table, page.rows)], load=step)], crash=crash)
            assert isinstance(outcome, list)
            removed = self.model.remove({*page.rows.batch.column(0).to_pylist()})
            assert sum(batch.receipt.rows for batch in outcome) == removed
        except Crash:
            pass
        return False

    def forget(self) -> None:
        """Check that nothing is left of a load that ended."""
        for kept in ("load_batches WHERE load_id", "load_deletes WHERE load_id", "table_counters WHERE open_load"):
            count = f"SELECT count(*) FROM mirrorgate.{kept} = CAST(:load AS uuid)"
            assert sql.value(self.engine, count, load=self.load.load_id) == 0
        self.load = None

    def mirrored(self) -> dict[int, int]:
        """Return the rows that a mirror makes of what was staged, without those that are flagged as deleted.

        Fail on an insert of a key that has a row, on a delete of a row that is to be flagged, and on a flagged row with
        other values than it had.
        """
        rows: dict[int, tuple[int, bool]] = {}
        for row in itertools.chain.from_iterable(staged_batches(self.engine, self.table)):
            key, marker, is_flagged = row["id"], row["__rowMarker__"], row.get("is deleted", False)
            assert marker != 0 or key not in rows
            if marker == 2:
                assert key not in rows or not self.table.options.flags_deletes
                rows.pop(key, None)
            else:
                assert not is_flagged or rows[key][0] == row["value"]
                rows[key] = row["value"], is_flagged
        return {key: value for key, (value, is_flagged) in rows.items() if not is_flagged}

    def images(self) -> dict[Any, Any]:
        with image_snapshot(self.engine, self.table) as snapshot:
            images = [decode_image(image) for chunk in snapshot.images for image in chunk]
        return {image[0]: image[1] for image in images}

    def _transaction(self, requests: Sequence[StagingRequest], *, crash: bool) -> Sequence[StagingOutcome]:
        with self.engine.begin() as connection:
            staged = stage_requests(connection, requests, encode_blocks(requests))
            if crash:
                raise Crash
        self.table = current(self.engine, str(self.table.name))
        return staged.outcomes


@pytest.mark.parametrize(
    "options",
    [COMPLETE, KEEP, FILTERED, pytest.param(FLAGGED, marks=pytest.mark.thorough)],
    ids=["complete", "images", "filtered", "flagged"],
)
@given(before=TOGETHER, steps=st.lists(STEPS, min_size=10, max_size=24))
@settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_interleavings_of_load_and_stream_equal_the_model(
    engine: sa.Engine, options: TableOptions, before: Sequence[Request], steps: Sequence[Any]
) -> None:
    gateway = Gateway(engine, registered(engine, next(_NAMES), SCHEMA, options))
    gateway.stage(before, crash=False)
    gateway.begin(LoadMode.FULL)
    for kind, requests, crash in steps:
        if kind == "stage":
            gateway.stage(requests, crash=crash)
        elif kind.startswith("begin"):
            gateway.begin(LoadMode(kind.removeprefix("begin ")))
        elif kind in {"abort", "expire"}:
            (gateway.abort if kind == "abort" else gateway.expire)()
        else:
            (gateway.complete if kind == "complete" else gateway.delete_some)(requests, crash=crash)
    gateway.complete((), crash=False)
    assert gateway.images() == gateway.model.rows
    wanted = {key: value for key, value in gateway.model.rows.items() if value > 0 or options.filter is None}
    assert gateway.mirrored() == wanted


def test_a_request_of_an_ended_load_blocks_no_rows_of_the_open_one(engine: sa.Engine) -> None:
    gateway = Gateway(engine, registered(engine, next(_NAMES), SCHEMA, KEEP))
    rows = Request([("upsert", 1, 0)], of_load=True)
    gateway.begin(LoadMode.FULL)
    gateway.stage([rows], crash=False)
    gateway.stage([Request([("delete", 2, 0)], of_load=False)], crash=False)
    late = gateway.request(rows, 500)
    gateway.abort()
    gateway.begin(LoadMode.FULL)
    ended, landed = gateway._transaction([late, gateway.request(rows, 1)], crash=False)
    assert isinstance(ended, RejectedInput)
    assert isinstance(landed, list)
    gateway.complete((), crash=False)
    assert gateway.images() == {1: 1}


IDS = [LoadId(f"00000000-0000-0000-0000-00000000000{at}") for at in range(2)]


def ended_by_requests() -> float:
    states = (REGISTRY.get_sample_value("mirrorgate_ended_loads_total", {"state": state}) for state in LoadState)
    return sum(count or 0 for count in states)


def test_a_load_that_a_drain_ends_is_not_counted_as_ended_by_a_request(engine: sa.Engine) -> None:
    table = registered(engine, "t", schema_of({"id": "int32"}, ["id"]), KEEP)
    before = ended_by_requests()
    sql.call(engine, begin_load, table.name, IDS[0], LoadMode.FULL, 60.0, "sender")
    sql.run(engine, "UPDATE mirrorgate.loads SET expires_at = clock_timestamp()")
    assert sql.call(engine, end_stale_loads) == 1
    assert ended_by_requests() == before
    with engine.begin() as connection:
        begin_load(connection, table.name, IDS[1], LoadMode.FULL, 60.0, "sender")
        for _ in range(2):
            assert abort_load(connection, table.name, IDS[1], "sender").state is LoadState.ABORTED
    assert ended_by_requests() == before + 1


def test_a_table_keeps_its_row_images_until_its_load_has_ended(engine: sa.Engine) -> None:
    table = registered(engine, "t", schema_of({"id": "int32"}, ["id"]), KEEP)
    for at, end in enumerate(("abort", "expiry")):
        sql.call(engine, begin_load, table.name, IDS[at], LoadMode.FULL, 60.0, "sender")
        with pytest.raises(RejectedInput) as rejected, engine.begin() as connection:
            register_table(connection, table.name, None, TableOptions())
        assert (rejected.value.code, IDS[at] in str(rejected.value)) == (Code.LOAD_OPEN, True)
        with engine.begin() as connection:
            if end == "abort":
                abort_load(connection, table.name, IDS[at], "sender")
            else:
                connection.execute(sa.text("UPDATE mirrorgate.loads SET expires_at = clock_timestamp()"))
        for kept in (RowImages.OFF, RowImages.ON):
            sql.call(engine, register_table, table.name, None, TableOptions(row_images=kept))


def test_an_id_that_two_tables_ask_for_at_the_same_time_is_the_load_of_the_first(engine: sa.Engine) -> None:
    tables = [registered(engine, name, schema_of({"id": "int32"}, ["id"]), KEEP) for name in "tu"]
    asked = [(table.name, IDS[0], LoadMode.APPEND, 60.0, "sender") for table in tables]
    with ThreadPoolExecutor(1) as thread:
        with engine.begin() as connection:
            begin_load(connection, *asked[0])
            other = thread.submit(sql.call, engine, begin_load, *asked[1])
            wait_until(lambda: sql.lock_waits(engine) == 1, within=30, what="the other table's load waits")
        with rejection(Code.LOAD_ENDED):
            other.result(timeout=30)
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.table_counters WHERE open_load IS NOT NULL") == 1
