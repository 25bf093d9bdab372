"""Partial updates of a model source, really staged: full rows land, and their images are stored."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.model.change import Change, Image
from app.domain.model.table import Table
from app.domain.model.table_schema import ColumnType, TableSchema
from app.domain.rows.conversion import convert
from app.domain.rows.row_image import WIDTH, by_position, known_values
from app.staging.batches.batch import Batch, Receipt, StagingRequest, TableMoved
from mirrorgate.errors import Code, RejectedInput
from tests.support.gateway_parts import registered, running_writer, stage, together, typed
from tests.support.postgres import sql
from tests.support.samples.changes import delete, insert, update, upsert
from tests.support.samples.images import COMPLETE, staged_batches, stored_images
from tests.support.samples.schemas import schema_of

TYPES: Final = {"a": "string", "b": "decimal(9,2)", "c": "json", "d": "int64"}
VALUES: Final[dict[str, list[tuple[Any, Any]]]] = {
    "a": [("x", "x"), ("", ""), ("null", "null"), (None, None)],
    "b": [("1.5", Decimal("1.50")), (2, Decimal("2.00")), (Decimal("0.50"), Decimal("0.50")), (None, None)],
    "c": [({"k": [1, None]}, '{"k":[1,null]}'), ("[]", "[]"), (None, None)],
    "d": [(2**62, 2**62), ("-7", -7), (None, None)],
}
"""By column: how a source may write a value, and the value as it lands."""

KEYS: Final = range(5)
_NAMES: Final = (f"t{number}" for number in itertools.count())

Row = dict[str, Any]


def declared(live: Sequence[str]) -> TableSchema:
    return schema_of({"id": "int64"} | {column: TYPES[column] for column in live}, ["id"])


def spelled(draw: st.DrawFn, key: int) -> Any:
    return draw(st.sampled_from([key, str(key), f"{key}.0", Decimal(key)]))


@dataclass
class Request:
    """The changes of a request, and what must become of it."""

    live: tuple[str, ...]
    rows: dict[int, Row]
    """What is known of the source's rows after it, by key."""
    changes: list[Change] = field(default_factory=list)
    landed: list[Row] = field(default_factory=list)
    """Its landing rows, without NULLs."""
    rejected: tuple[int, list[str]] | None = None
    """The first message that nothing completes, and the columns it lacks."""
    moves: str = ""
    """Whether keys of known rows change or of unknown ones: beside these, one row that moves twice is ambiguous."""

    def write(self, draw: st.DrawFn) -> None:
        """Write one or more changes of the source."""
        taken, free = sorted(self.rows), sorted(set(KEYS).difference(self.rows))
        kinds = ["insert", "upsert", "update of nobody"] if free else []
        kinds += ["update", "delete", "upsert over"] * bool(taken)
        if not self.moves:
            kinds += ["move of nobody"] * bool(free)
        if self.moves != "unknown":
            kinds += ["move"] * bool(taken and free) + ["exchange"] * (len(taken) > 1 and bool(free))
        kind = draw(st.sampled_from(kinds))
        if kind in {"move", "exchange", "move of nobody"}:
            self.moves = "unknown" if kind == "move of nobody" else "known"
        key = draw(st.sampled_from(taken if kind in {"update", "delete", "upsert over", "move", "exchange"} else free))
        if kind == "insert":
            self.insert(draw, key)
        elif kind.startswith("upsert"):
            self.upsert(draw, key)
        elif kind == "delete":
            self.delete(draw, key)
        elif kind == "exchange":
            other, spare = draw(st.sampled_from([taken_key for taken_key in taken if taken_key != key])), free[0]
            for old, new in ((key, spare), (other, key), (spare, other)):
                self.update(draw, old, new)
        else:
            self.update(draw, key, draw(st.sampled_from(free)) if "move" in kind else key)

    def insert(self, draw: st.DrawFn, key: int) -> None:
        seen = self._seen(draw)
        image, row = self._some(draw, seen)
        self.rows[key] = row
        self._add(draw, insert({"id": spelled(draw, key), **image}, len(self.changes)), seen, self._row(key, 0))

    def upsert(self, draw: st.DrawFn, key: int) -> None:
        image, row = self._values(draw, self.live)
        self.rows[key] = row
        self._add(draw, upsert({"id": key, **image}, len(self.changes)), self.live, self._row(key, 4))

    def delete(self, draw: st.DrawFn, key: int) -> None:
        del self.rows[key]
        change = delete({"id": spelled(draw, key)}, len(self.changes))
        self._add(draw, change, self.live, {"id": key, "__rowMarker__": 2})

    def update(self, draw: st.DrawFn, old: int, new: int) -> None:
        seen = self._seen(draw)
        image, row = self._some(draw, seen)
        known = self.rows.pop(old, {})
        missing = [column for column in seen if column not in row]
        unknown = [column for column in missing if column not in known]
        if unknown and self.rejected is None:
            self.rejected = (len(self.changes), unknown)
        self.rows[new] = row | {column: known.get(column) for column in missing}
        change = update({"id": spelled(draw, old)}, {"id": spelled(draw, new), **image}, len(self.changes))
        moved = [{"id": old, "__rowMarker__": 2}, self._row(new, 0)]
        self._add(draw, change, seen, *(moved if old != new else [self._row(new, 1)]))

    def _seen(self, draw: st.DrawFn) -> Sequence[str]:
        """Return the columns that the source had when it wrote a change: mostly all of them."""
        unseen = draw(st.sampled_from([None, None, None, None, *self.live]))
        return [column for column in self.live if column != unseen]

    def _some(self, draw: st.DrawFn, columns: Sequence[str]) -> tuple[Image, Row]:
        return self._values(draw, [column for column in columns if draw(st.booleans())])

    def _values(self, draw: st.DrawFn, columns: Sequence[str]) -> tuple[Image, Row]:
        values = {column: draw(st.sampled_from(VALUES[column])) for column in columns}
        return {column: written for column, (written, _) in values.items()}, {
            column: value for column, (_, value) in values.items()
        }

    def _row(self, key: int, marker: int) -> Row:
        row = {"id": key, **self.rows[key], "__rowMarker__": marker}
        return {column: value for column, value in row.items() if value is not None}

    def _add(self, draw: st.DrawFn, change: Change, seen: Sequence[str], *landed: Row) -> None:
        if len(seen) < len(self.live):
            change = msgspec.structs.replace(change, source_columns=frozenset({"id", *seen}))
        self.changes.append(change)
        self.landed += landed


@dataclass(frozen=True)
class Group:
    """Requests that wait together, under the columns that the source has by then."""

    live: tuple[str, ...]
    requests: Sequence[Request]
    has_stale: bool
    """A request typed under the table as it was before waits in front."""


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Group], dict[int, Row]]:
    """Draw groups of requests of a source that was empty, and what is finally known of its rows."""
    live: tuple[str, ...] = ("a", "b")
    ever = 2
    rows: dict[int, Row] = {}
    groups = []
    for _ in range(draw(st.integers(1, 5))):
        column = draw(st.sampled_from([None, None, *list(TYPES)[: ever + 1]]))
        is_new = column is not None and list(TYPES).index(column) >= ever
        ever += is_new
        if column is not None:
            live = tuple(sorted({column}.symmetric_difference(live)))
            rows = {key: {name: row[name] for name in row if name in live} for key, row in rows.items()}
            if is_new:  # the mirrored rows are NULL there
                rows = {key: row | {column: None} for key, row in rows.items()}
        requests = []
        for _ in range(draw(st.integers(1, 4))):
            request = Request(live, {key: {**row} for key, row in rows.items()})
            for _ in range(draw(st.integers(1, 4))):
                request.write(draw)
            requests.append(request)
            rows = rows if request.rejected else request.rows
        groups.append(Group(live, requests, draw(st.booleans())))
    return groups, rows


@pytest.fixture(scope="module", autouse=True)
def writes_few_images_as_many() -> Iterator[None]:
    """Write the images of small batches by the statement for large ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.staging.batches.row_images.MIN_INSERTED_IMAGES", 2)
        patch.setattr("app.staging.batches.row_images.SAMPLED_KEYS", 1)
        yield


def place_of(future: "Future[list[Receipt]]") -> tuple[int | None, list[str | None]]:
    """Return the first message of a rejection and its columns; nothing for an ambiguous key change, found first."""
    with pytest.raises(RejectedInput) as rejection:
        future.result()
    problems = rejection.value.problems
    if rejection.value.code is Code.AMBIGUOUS_KEY_CHANGE:
        return None, []
    assert {problem.code for problem in problems} == {Code.INCOMPLETE_UPDATE}
    return problems[0].index, [problem.column for problem in problems if problem.index == problems[0].index]


def known_rows(engine: sa.Engine, table: Table) -> dict[int, Row]:
    """Return the typed values that stored images know, without those from before a column left the source."""
    images = sql.rows(
        engine, f"SELECT row_key, sequence, image FROM mirrorgate.row_images WHERE table_id = {table.table_id}"
    )
    names = table.schema.names
    rows = {}
    for key, sequence, image in images:
        known = by_position(known_values(image), len(names)).items()
        values = {names[place]: value for place, value in known if place != WIDTH}
        rows[int(key)] = {
            column: convert([value], ColumnType.parse(TYPES[column]))[0].as_py()
            for column, value in values.items()
            if column in TYPES and column not in table.left_columns and sequence > table.late_columns.get(column, 0)
        }
    return rows


@given(history=histories())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_landed_row_is_the_models_full_row_and_the_images_are_what_it_knows(
    engine: sa.Engine, other: sa.Engine, history: tuple[list[Group], dict[int, Row]]
) -> None:
    groups, rows = history
    name = next(_NAMES)
    table = registered(engine, name, declared(["a", "b"]), COMPLETE)
    landed = []
    for group, writer in zip(groups, itertools.cycle([engine, other])):
        before, table = table, registered(engine, name, declared(group.live))
        is_changed = (before.schema_version, before.revision) != (table.schema_version, table.revision)
        stale = [[typed(before, [insert({"id": 9})])]] if group.has_stale and is_changed else []
        waiting = together(writer, *stale, *([typed(table, request.changes)] for request in group.requests))
        for future in waiting[: len(stale)]:
            with pytest.raises(TableMoved):
                future.result()
        for request, future in zip(group.requests, waiting[len(stale) :], strict=True):
            if request.rejected:
                assert place_of(future) in (request.rejected, (None, []))
            else:
                future.result()
                landed.append(request.landed)
    assert [[_without_nulls(row) for row in batch] for batch in staged_batches(engine, table)] == landed
    assert known_rows(engine, table) == rows


def _without_nulls(row: Mapping[str, Any]) -> Row:
    return {column: value for column, value in row.items() if value is not None}


ROWS: Final = 4
ROUNDS: Final = 60
PAIR: Final = schema_of({"id": "int64", "left": "int64", "right": "int64"}, ["id"])


def test_two_processes_that_update_different_columns_of_the_same_rows_never_undo_each_other(
    engine: sa.Engine, other: sa.Engine
) -> None:
    table = registered(engine, "t", PAIR, COMPLETE)
    stage(engine, [typed(table, [insert({"id": key, "left": 0, "right": 0}) for key in range(ROWS)])])
    sent: dict[int, tuple[str, int]] = {}

    def send(column: str, engine: sa.Engine) -> None:
        futures = []
        with running_writer(engine) as writer:
            for number in range(1, ROUNDS + 1):
                futures.append(writer.submit(StagingRequest(_everywhere(table, column, number))))
                if number % 3 == 0:  # let the other process in between: three requests wait together at most
                    futures[-1].result(timeout=60)
        sent.update({future.result()[0].sequence: (column, number) for number, future in enumerate(futures, 1)})

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(send, ["left", "right"], [engine, other]))
    state = {key: {"id": key, "left": 0, "right": 0} for key in range(ROWS)}
    _, *batches = staged_batches(engine, table)
    for sequence, batch in enumerate(batches, 2):
        column, number = sent.pop(sequence)
        for row in batch:
            state[row["id"]][column] = number
            assert row == {**state[row["id"]], "__rowMarker__": 1}
        assert len(batch) == ROWS
    assert not sent
    assert list(state.values()) == [{"id": key, "left": ROUNDS, "right": ROUNDS} for key in range(ROWS)]
    assert sorted(stored_images(engine, table).values(), key=lambda image: str(image["id"])) == list(state.values())


def _everywhere(table: Table, column: str, number: int) -> list[Batch]:
    """Return one batch that updates this column in every row."""
    return [typed(table, [update(None, {"id": key, column: number}) for key in range(ROWS)])]
