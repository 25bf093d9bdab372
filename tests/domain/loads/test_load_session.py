"""What a request may do with a load session in each state."""

from datetime import UTC, datetime
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.loads import (
    LoadId,
    LoadMode,
    LoadSession,
    LoadState,
    LoadStep,
    check_step,
    ended,
    is_repeated_abort,
    is_repeated_completion,
)
from app.domain.model.table import BatchSequence, Generation, TableId
from app.errors import Code, RejectedInput

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
            with pytest.raises(RejectedInput) as rejection:
                is_repeated(load(state))
            assert rejection.value.code is Code.LOAD_ENDED
        else:
            assert is_repeated(load(state)) == (state in done)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (LoadState.OPEN, "is not being completed"),
        (LoadState.COMPLETING, "is being completed and takes no more rows"),
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
