"""Load sessions: what may begin and end one, and what its rows become."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.loads import (
    LoadId,
    LoadSession,
    LoadState,
    LoadStep,
    check_step,
    ended,
    is_repeated_abort,
    is_repeated_completion,
)
from app.domain.model.change import Change, Operation
from app.domain.model.table import BatchSequence, Generation, TableId
from app.domain.model.table_options import PartialUpdates, RowImages, TableOptions
from app.domain.rows.landing_rows import (
    LandingRows,
    check_loadable,
    has_repeats,
    insert_keys,
    landing_rows,
    with_inserts,
    without_keys,
)
from app.domain.rows.row_rules import RowRules
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import LoadMode
from tests.support.rejections import rejected
from tests.support.samples.changes import change, delete, insert, update, upsert
from tests.support.samples.schemas import schema_of

NOW: Final = datetime(2026, 11, 22, tzinfo=UTC)
STATES: Final = st.sampled_from(LoadState)


def load(state: LoadState) -> LoadSession:
    numbers = {"batches": 0, "rows": 0, "superseded": 0, "deletes": 0, "scanned_through": None, "idle_seconds": 7200.0}
    return LoadSession(
        LoadId("l"),
        TableId(1),
        Generation(1),
        LoadMode.FULL,
        state,
        BatchSequence(1),
        **numbers,  # type: ignore[arg-type]  # each has its own type
        started_by="k",
        started_at=NOW,
        expires_at=NOW,
        ended_at=None,
    )


def code_of(state: LoadState | None, *, removes: bool, table_id: int = 1) -> Code | None:
    try:
        check_step(None if state is None else load(state), LoadStep(LoadId("l"), removes), [TableId(table_id)])
    except RejectedInput as error:
        return error.code
    return None


@given(STATES, st.booleans())
def test_rows_need_an_open_load_and_deletes_one_that_is_being_completed(state: LoadState, removes: bool) -> None:
    wanted = LoadState.COMPLETING if removes else LoadState.OPEN
    assert code_of(state, removes=removes) == (None if state is wanted else Code.LOAD_ENDED)


@given(STATES, st.booleans())
def test_another_table_and_an_unknown_load_are_rejected_whatever_the_state(state: LoadState, removes: bool) -> None:
    assert code_of(state, removes=removes, table_id=2) is Code.LOAD_TABLE_MISMATCH
    assert code_of(None, removes=removes) is Code.UNKNOWN_LOAD


@pytest.mark.parametrize("state", LoadState)
def test_each_state_is_continued_repeated_or_rejected(state: LoadState) -> None:
    for is_repeated, done, wrong in (
        (is_repeated_completion, {LoadState.COMPLETED}, {LoadState.ABORTED, LoadState.EXPIRED}),
        (is_repeated_abort, {LoadState.ABORTED, LoadState.EXPIRED}, {LoadState.COMPLETED}),
    ):
        if state in wrong:
            with rejected(Code.LOAD_ENDED):
                is_repeated(load(state))
        else:
            assert is_repeated(load(state)) == (state in done)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (LoadState.OPEN, "is not being completed"),
        (LoadState.COMPLETING, "is being completed and accepts no more rows"),
        (LoadState.COMPLETED, "is completed"),
        (LoadState.ABORTED, "was aborted, or its table was dropped or recreated"),
        (LoadState.EXPIRED, "expired, because no request used it for 2 hours"),
    ],
)
def test_a_request_that_comes_too_late_is_told_why(state: LoadState, why: str) -> None:
    rejection = ended(load(state))
    assert (rejection.code, rejection.detail) == (Code.LOAD_ENDED, f"load l {why}")


def test_a_load_is_named_where_it_is_unknown_or_of_another_table() -> None:
    for known, detail in ((None, "the table has no load l"), (load(LoadState.OPEN), "load l is of another table")):
        with pytest.raises(RejectedInput) as rejection:
            check_step(known, LoadStep(LoadId("l")), [TableId(1), TableId(2)])
        assert rejection.value.detail == detail


SCHEMA: Final = schema_of({"id": "int64", "value": "int64", "note": "string"}, ["id"])
RULES: Final = RowRules(SCHEMA, TableOptions(partial_updates=PartialUpdates.COMPLETE), images_complete=True)
KEYS: Final = st.integers(0, 5)


@st.composite
def loaded(draw: st.DrawFn) -> list[Change]:
    """Draw rows of a load: inserts, upserts, snapshot rows, and rows that leave out a column."""
    changes = []
    for index, key in enumerate(draw(st.lists(KEYS, min_size=1, max_size=8))):
        operation = draw(st.sampled_from([Operation.INSERT, Operation.UPSERT, Operation.MERGE]))
        row = {"id": key, "value": index, "note": f"row {index}"}
        if operation is Operation.MERGE and draw(st.booleans()):
            del row["note"]
        changes.append(change(operation, None, row, index))
    return changes


def typed(changes: Sequence[Change]) -> LandingRows:
    return landing_rows(changes, RULES)


@given(loaded(), st.sets(KEYS))
def test_the_rows_of_other_keys_are_those_that_would_be_typed_without_the_rest(
    changes: list[Change], blocked: set[int]
) -> None:
    rows = typed(changes)
    images = check_loadable(rows)
    kept = [one for one in changes if one.after and one.after["id"] not in blocked]
    found = without_keys(rows, images, {str(key).encode() for key in blocked})
    if not kept:
        assert (found.rows, found.changes) == (0, 0)
        return
    wanted = typed(kept)
    assert (found.batch, found.changes) == (wanted.batch, wanted.changes)
    assert found.images is not None
    assert wanted.images is not None
    assert [*found.images.keys] == [*wanted.images.keys]
    assert [*found.images.images] == [*wanted.images.images]
    assert [*found.images.inserts] == [*wanted.images.inserts]
    assert found.images.incomplete.keys() == wanted.images.incomplete.keys()
    for row, entry in found.images.incomplete.items():
        assert entry._replace(message=0) == wanted.images.incomplete[row]._replace(message=0)
        assert entry.message == changes.index(kept[row])


@given(loaded(), st.sets(KEYS), st.sets(KEYS))
def test_keys_can_be_left_out_in_any_order(changes: list[Change], one: set[int], other: set[int]) -> None:
    def without(rows: LandingRows, blocked: set[int]) -> LandingRows:
        assert rows.images is not None
        return without_keys(rows, rows.images, {str(key).encode() for key in blocked})

    rows = typed(changes)
    both = without(rows, one | other)
    assert without(without(rows, one), other) == both == without(without(rows, other), one)
    assert without(both, one) is both


@given(st.lists(KEYS))
def test_repeats_are_rows_with_the_same_key(keys: list[int]) -> None:
    assert has_repeats([b"%d" % key for key in keys]) == any(keys.count(key) > 1 for key in keys)


@pytest.mark.parametrize(
    "wrong",
    [delete({"id": 1}), update(None, {"id": 1, "value": 1, "note": ""}), update({"id": 1}, {"id": 2, "value": 1})],
)
def test_updates_and_deletes_are_no_rows(wrong: Change) -> None:
    with rejected(Code.LOAD_TAKES_ROWS) as rejection:
        check_loadable(typed([insert({"id": 7, "value": 1, "note": ""}), wrong]))
    assert rejection.detail == "a change of the request updates or deletes a row"
    with rejected() as named:
        landing_rows([insert({"id": 7, "value": 1, "note": ""}), wrong], RowRules(SCHEMA, RULES.options, in_load=True))
    assert [code for code, *_ in named.places] == [Code.LOAD_TAKES_ROWS]


def test_a_table_that_stopped_keeping_images_takes_no_rows() -> None:
    rows = landing_rows([insert({"id": 7, "value": 1, "note": ""})], RowRules(SCHEMA))
    with rejected() as rejection:
        check_loadable(rows)
    assert (rejection.code, rejection.detail) == (Code.NO_ROW_IMAGES, "the table keeps no row images any more")
    assert insert_keys(rows) == []
    assert with_inserts(rows) is rows


def test_inserts_of_a_table_whose_images_decide_nothing_are_found_by_their_markers() -> None:
    kept = RowRules(SCHEMA, TableOptions(row_images=RowImages.ON), images_complete=True)
    full = [{"id": key, "value": key, "note": ""} for key in range(4)]
    changes = [upsert(full[0]), insert(full[1]), delete({"id": 2}), insert(full[3])]
    rows = landing_rows(changes, kept)
    assert insert_keys(rows) == [b"1", b"3"]
    assert rows.images is not None
    marked = with_inserts(rows)
    assert marked.images is not None
    assert ([*rows.images.inserts], [*marked.images.inserts]) == ([], [1, 3])
    assert (marked.images.keys, marked.images.images) == (rows.images.keys, rows.images.images)
    only_upserts = landing_rows([upsert(full[0])], kept)
    assert with_inserts(only_upserts) is only_upserts
