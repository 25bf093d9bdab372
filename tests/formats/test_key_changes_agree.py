"""Key changes, written by each tool in each of its forms: mirroring ends with the source's rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.domain.model.change import Change
from app.domain.model.names import ROW_MARKER
from app.domain.model.table import BatchSequence
from app.domain.model.table_options import PartialUpdates, TableOptions
from app.domain.rows.image_overlay import ImageOverlay
from app.domain.rows.landing_rows import landing_rows, landing_rows_of_shaped
from app.domain.rows.row_rules import RowMarker, RowRules
from mirrorgate.errors import Code, RejectedInput
from tests.support.forms import arcion
from tests.support.forms.catalogue import FORMS, FULL_FORMS, KEY_CHANGE_FORMS
from tests.support.forms.form import Form, schema
from tests.support.forms.source_histories import Event, Row, SourceTable
from tests.support.samples.changes import shaped
from tests.support.samples.schemas import active_table

TABLE: Final = SourceTable({"id": "int64", "seat": "string", "name": "string"}, keys=2)
Request = list[Event]
State = dict[Row, Row]


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Request], State]:
    """Draw requests of statements on an empty table, and its final rows. No two rows are equal."""
    state: State = {}
    numbers = iter(range(10_000))
    keys = st.tuples(st.integers(0, 3), st.sampled_from("ab"))

    def fresh(key: Row) -> Row:
        return (*key, f"row {next(numbers)}")

    def statement() -> Iterable[Event]:
        kind = draw(st.sampled_from(["insert", "delete", "permute", "permute", "chain", "change"]))
        free = [key for key in draw(st.lists(keys, unique=True)) if key not in state]
        present = draw(st.permutations(sorted(state)))[: draw(st.integers(1, 4))]
        if kind == "insert" or not present:
            for key in free:
                state[key] = fresh(key)
                yield Event(None, state[key])
        elif kind == "delete":
            yield Event(state.pop(present[0]), None)
        elif kind == "change":
            yield from moved({present[0]: present[0]}, changed=True)
        elif kind == "chain":
            key = present[0]
            for target in free:
                yield from moved({key: target}, changed=draw(st.booleans()))
                key = target
        else:
            targets = draw(st.permutations(present + free))[: len(present)]
            yield from moved(dict(zip(present, targets, strict=True)), changed=draw(st.booleans()))

    def moved(targets: Mapping[Row, Row], *, changed: bool) -> list[Event]:
        old = {key: state.pop(key) for key in targets}
        new = {key: fresh(target) if changed else (*target, old[key][-1]) for key, target in targets.items()}
        state.update({target: new[key] for key, target in targets.items()})
        return [Event(old[key], new[key]) for key in targets]

    requests = [
        [event for _ in range(draw(st.integers(1, 3))) for event in statement()] for _ in range(draw(st.integers(1, 5)))
    ]
    return [request for request in requests if request], state


def _only_keys_before(table: SourceTable, body: bytes) -> Sequence[Change]:
    """Read full images, and leave only the key before an update."""
    changes = arcion.FULL.read(table, body)
    for change in changes:
        if change.before is not None and change.after is not None:
            for name in [*table.types][table.keys :]:
                del change.before[name]
    return changes


ONLY_KEYS_BEFORE: Final = replace(arcion.FULL, read=_only_keys_before)


def applied(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Apply landing rows as mirroring does: an insert checks no duplicate, a delete removes all rows of its key."""
    found: list[Row] = []
    for row in rows:
        values = tuple(row[name] for name in TABLE.types)
        if row[ROW_MARKER] != RowMarker.INSERT:
            found = [one for one in found if TABLE.key(one) != TABLE.key(values)]
        if row[ROW_MARKER] != RowMarker.DELETE:
            found.append(values)
    return sorted(found)


def landed(requests: Sequence[Request], form: Form, **options: Any) -> list[dict[str, Any]]:
    chosen = TableOptions(**options)
    rules = RowRules(schema(TABLE), chosen)
    overlay = ImageOverlay(active_table(rules.schema, chosen), {})
    found: list[dict[str, Any]] = []
    for number, events in enumerate(requests, 1):
        rows, layer = overlay.complete(form.rows(TABLE, events, rules))
        overlay.adopt(layer, BatchSequence(number))
        rows.batch.validate(full=True)
        found += rows.batch.to_pylist()
    return found


@pytest.mark.parametrize("name", [name for name in FULL_FORMS if name in KEY_CHANGE_FORMS])
@given(stream=streams())
def test_statements_that_change_keys_lose_no_row_with_full_before_images(
    name: str, stream: tuple[list[Request], State]
) -> None:
    requests, state = stream
    assert applied(landed(requests, FORMS[name])) == sorted(state.values())


ROW_IMAGE_FORMS: Final = KEY_CHANGE_FORMS | {"arcion with keys before": ONLY_KEYS_BEFORE}


@pytest.mark.parametrize("form", ROW_IMAGE_FORMS.values(), ids=ROW_IMAGE_FORMS)
@given(stream=streams())
def test_statements_that_change_keys_lose_no_row_with_row_images(
    form: Form, stream: tuple[list[Request], State]
) -> None:
    requests, state = stream
    rows = landed(requests, form, partial_updates=PartialUpdates.COMPLETE)
    assert applied(rows) == sorted(state.values())


@given(stream=streams())
def test_every_path_lands_the_same_order(stream: tuple[list[Request], State]) -> None:
    requests, _ = stream
    rules = RowRules(schema(TABLE))
    changes = [arcion.FULL.changes(TABLE, events) for events in requests]
    alone = [landing_rows(of_request, rules).batch for of_request in changes]
    for of_request, batch in zip(changes, alone, strict=True):
        each = landing_rows_of_shaped([shaped(of_request, rules.schema)], rules)
        assert each[0].batch.equals(batch)
    together = landing_rows_of_shaped([shaped(of_request, rules.schema) for of_request in changes], rules)
    assert [rows.batch for rows in together] == alone


@given(keys=st.permutations([1, 2, 3, 4, 5]), targets=st.permutations([1, 2, 3, 4, 5, 6, 7]))
def test_what_neither_images_nor_before_images_decide_is_rejected_or_right(
    keys: Sequence[int], targets: Sequence[int]
) -> None:
    rows = {key: (key, "a", f"row {key}") for key in keys}
    moves = [
        Event(rows[key], (target, "a", f"row {key}"))
        for key, target in zip(keys, targets, strict=False)
        if key != target
    ]
    assume(moves)
    try:
        moved = landed([moves], ONLY_KEYS_BEFORE)
    except RejectedInput as error:
        assert error.code is Code.AMBIGUOUS_KEY_CHANGE
    else:
        loaded = landed([[Event(None, row) for row in rows.values()]], arcion.FULL)
        of_moves = {event.old: event.new for event in moves}
        assert applied(loaded + moved) == sorted(of_moves.get(row, row) for row in rows.values())
