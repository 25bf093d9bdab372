"""Key changes, written by each tool in each of its forms: mirroring ends with the source's rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.domain.model.names import ROW_MARKER
from app.domain.model.table import BatchSequence
from app.domain.model.table_options import PartialUpdates, TableOptions
from app.domain.rows.image_overlay import ImageOverlay
from app.domain.rows.landing_rows import LandingRows, landing_rows, landing_rows_of_shaped
from app.domain.rows.row_rules import RowMarker, RowRules
from mirrorgate.errors import Code, RejectedInput
from tests.support.forms.catalogue import FORMS, FULL_FORMS
from tests.support.forms.form import Change, Form, Key, Request
from tests.support.forms.histories import History, State, source_table, update
from tests.support.forms.reading import changes_of, rows_of, schema
from tests.support.forms.values import Row
from tests.support.samples.changes import shaped
from tests.support.samples.schemas import active_table

TABLE: Final = source_table({"id": "int64", "seat": "string", "name": "string"}, keys=2)
RULES: Final = RowRules(schema(TABLE))
FULL: Final = FORMS["arcion json"]
MOVING: Final = {name: form for name, form in FORMS.items() if form.moves}
"""Forms with changes of keys. The others cannot tell a statement that exchanges keys: the second delete removes the row
that the first insert wrote."""


@st.composite
def streams(draw: st.DrawFn) -> History:
    """Draw requests of statements on an empty table. No two of its final rows are equal."""
    state: State = {}
    numbers = iter(range(10_000))
    keys = st.tuples(st.integers(0, 3), st.sampled_from("ab"))

    def fresh(key: Key) -> Row:
        return row_of(*key, f"row {next(numbers)}")

    def statement() -> Iterable[Change]:
        kind = draw(st.sampled_from(["insert", "delete", "permute", "permute", "chain", "change"]))
        free = [key for key in draw(st.lists(keys, unique=True)) if key not in state]
        present = draw(st.permutations(sorted(state)))[: draw(st.integers(1, 4))]
        if kind == "insert" or not present:
            for key in free:
                state[key] = fresh(key)
                yield Change("I", None, state[key])
        elif kind == "delete":
            yield Change("D", state.pop(present[0]), None)
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

    def moved(targets: Mapping[Key, Key], *, changed: bool) -> list[Change]:
        old = {key: state.pop(key) for key in targets}
        new = {key: fresh(target) if changed else row_of(*target, old[key]["name"]) for key, target in targets.items()}
        state.update({target: new[key] for key, target in targets.items()})
        return [update(TABLE, old[key], new[key]) for key in targets]

    requests = [
        [change for _ in range(draw(st.integers(1, 3))) for change in statement()]
        for _ in range(draw(st.integers(1, 5)))
    ]
    return History(TABLE, [request for request in requests if request], state, draw(st.integers(0, 2**32)))


def row_of(number: int, seat: str, name: str) -> Row:
    return {"id": number, "seat": seat, "name": name}


def only_keys_before(request: Request, rules: RowRules) -> LandingRows:
    """Return the rows of full images in which only the key is left before an update."""
    changes = changes_of(request, TABLE)
    for change in changes:
        if change.before is not None and change.after is not None:
            del change.before["name"]
    return landing_rows(changes, rules)


def applied(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Apply landing rows as mirroring does: an insert checks no duplicate, a delete removes all rows of its key."""
    found: list[Row] = []
    for row in rows:
        values = {name: row[name] for name in TABLE.names}
        if row[ROW_MARKER] != RowMarker.INSERT:
            found = [one for one in found if TABLE.key(one) != TABLE.key(values)]
        if row[ROW_MARKER] != RowMarker.DELETE:
            found.append(values)
    return in_order(found)


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=TABLE.key)


def landed(
    history: History,
    form: Form,
    *,
    complete: bool = False,
    read: Callable[[Request, RowRules], LandingRows] | None = None,
) -> list[dict[str, Any]]:
    """Return the rows of all requests. With `complete`, row images fill the gaps."""
    options = TableOptions(partial_updates=PartialUpdates.COMPLETE) if complete else TableOptions()
    rules = RowRules(RULES.schema, options)
    overlay = ImageOverlay(active_table(rules.schema, options), {})
    found: list[dict[str, Any]] = []
    for number, request in enumerate(history.requests(form), 1):
        rows, layer = overlay.complete(read(request, rules) if read else rows_of(request, TABLE, rules))
        overlay.adopt(layer, BatchSequence(number))
        rows.batch.validate(full=True)
        found += rows.batch.to_pylist()
    return found


@pytest.mark.parametrize("name", [name for name in MOVING if name in FULL_FORMS])
@given(history=streams())
def test_statements_that_change_keys_lose_no_row_with_full_before_images(name: str, history: History) -> None:
    assert applied(landed(history, MOVING[name])) == in_order(history.state.values())


@pytest.mark.parametrize("form", MOVING.values(), ids=MOVING)
@given(history=streams())
def test_statements_that_change_keys_lose_no_row_with_row_images(form: Form, history: History) -> None:
    assert applied(landed(history, form, complete=True)) == in_order(history.state.values())


@given(history=streams())
def test_statements_that_change_keys_lose_no_row_with_row_images_and_only_keys_before(history: History) -> None:
    rows = landed(history, FULL, complete=True, read=only_keys_before)
    assert applied(rows) == in_order(history.state.values())


@given(history=streams())
def test_every_path_lands_the_same_order(history: History) -> None:
    changes = [changes_of(request, TABLE) for request in history.requests(FULL)]
    alone = [landing_rows(of_request, RULES).batch for of_request in changes]
    for of_request, batch in zip(changes, alone, strict=True):
        each = landing_rows_of_shaped([shaped(of_request, RULES.schema)], RULES)
        assert each[0].batch.equals(batch)
    together = landing_rows_of_shaped([shaped(of_request, RULES.schema) for of_request in changes], RULES)
    assert [rows.batch for rows in together] == alone


@given(keys=st.permutations([1, 2, 3, 4, 5]), targets=st.permutations([1, 2, 3, 4, 5, 6, 7]))
def test_what_neither_images_nor_before_images_decide_is_rejected_or_right(
    keys: Sequence[int], targets: Sequence[int]
) -> None:
    rows = {key: row_of(key, "a", f"row {key}") for key in keys}
    new = {key: row_of(target, "a", f"row {key}") for key, target in zip(keys, targets, strict=False)}
    moves = [update(TABLE, rows[key], new[key]) for key in keys if rows[key] != new[key]]
    assume(moves)
    try:
        moved = landed(History(TABLE, [moves], {}), FULL, read=only_keys_before)
    except RejectedInput as error:
        assert error.code is Code.AMBIGUOUS_KEY_CHANGE
    else:
        inserts = [Change("I", None, row) for row in rows.values()]
        loaded = landed(History(TABLE, [inserts], {}), FULL)
        assert applied(loaded + moved) == in_order(new.values())
