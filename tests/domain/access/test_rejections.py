"""Rejections aggregated per minute: none is lost, and no caller can make the entries many."""

from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from app.domain.access.rejections import ANY_ACTION, MAX_REJECTIONS, MAX_TABLES, Rejection, RejectionCounter

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
READ = Rejection("GET /v1/tables/{table}", 404, "unknown_table", "0011aabb", "hr.people")


def test_the_same_rejection_in_one_minute_is_counted_under_its_first_request() -> None:
    book = RejectionCounter()
    for second, request_id in ((3, "first"), (59, "second")):
        book.note(READ, NOON + timedelta(seconds=second, microseconds=7), request_id)
    [counted] = book.take()
    assert (counted.minute, counted.rejection, counted.times, counted.request_id) == (NOON, READ, 2, "first")
    assert book.take() == []


def test_the_next_minute_is_counted_apart() -> None:
    book = RejectionCounter()
    book.note(READ, NOON, None)
    book.note(READ, NOON + timedelta(minutes=1), None)
    assert [counted.minute for counted in book.take()] == [NOON, NOON + timedelta(minutes=1)]


def test_tables_that_one_caller_tries_out_are_told_apart_up_to_a_number_and_another_caller_has_its_own() -> None:
    book = RejectionCounter()
    for number in range(MAX_TABLES + 5):
        action = "GET /a" if number % 2 else "GET /b"
        book.note(Rejection(action, 404, "unknown_table", "prober", f"t{number}"), NOON, None)
    book.note(Rejection("GET /", 404, "unknown_table", "other", "t99"), NOON, None)
    taken = book.take()
    assert (
        len([counted for counted in taken if counted.rejection.table and counted.rejection.subject == "prober"])
        == MAX_TABLES
    )
    assert sum(counted.times for counted in taken if counted.rejection.table is None) == 5
    assert [counted.rejection.subject for counted in taken if counted.rejection.table == "t99"] == ["other"]


def test_what_was_taken_and_comes_again_in_the_same_minute_still_counts_to_the_limit() -> None:
    book = RejectionCounter()
    for number in range(2 * MAX_REJECTIONS):
        book.note(Rejection("GET /", 403, "forbidden", f"key{number}"), NOON, None)
        if number % 100 == 0:
            assert len(book.take()) <= 101
    book.note(Rejection("GET /", 403, "forbidden", "key0"), NOON, None)
    assert {counted.rejection for counted in book.take()} == {
        Rejection(ANY_ACTION, 403, "forbidden"),
        Rejection("GET /", 403, "forbidden", "key0"),
    }


def test_what_could_not_be_stored_is_counted_with_what_came_since() -> None:
    book = RejectionCounter()
    book.note(READ, NOON, "first")
    taken = book.take()
    book.note(READ, NOON, "second")
    book.put_back(taken)
    assert [counted.times for counted in book.take()] == [2]


rejections = st.builds(
    Rejection,
    st.sampled_from(["GET /a", "GET /b"]),
    st.just(403),
    st.sampled_from(["forbidden", "unknown_table"]),
    st.none() | st.integers(0, 2000).map(str),
    st.none() | st.integers(0, 50).map(str),
)


@given(st.lists(st.tuples(rejections, st.integers(0, 3), st.booleans()), max_size=300))
def test_no_rejection_is_lost_and_its_minute_and_code_stay(noted: list[tuple[Rejection, int, bool]]) -> None:
    book = RejectionCounter()
    counts: Counter[tuple[datetime, str]] = Counter()
    stored: Counter[tuple[datetime, str]] = Counter()
    minute = 0
    for rejection, later, works in noted:
        minute += later
        moment = NOON + timedelta(minutes=minute)
        book.note(rejection, moment, None)
        counts[moment, rejection.code] += 1
        taken = book.take()
        if works:
            for counted in taken:
                stored[counted.minute, counted.rejection.code] += counted.times
        else:
            book.put_back(taken)
    for counted in book.take():
        stored[counted.minute, counted.rejection.code] += counted.times
    assert stored == counts


def test_a_new_minute_counts_to_the_limits_again() -> None:
    book = RejectionCounter()
    for minute in range(2):
        for number in range(MAX_TABLES):
            book.note(
                Rejection("GET /", 404, "unknown_table", "prober", f"t{minute}-{number}"),
                NOON + timedelta(minutes=minute),
                None,
            )
    assert all(counted.rejection.table for counted in book.take())


def test_what_is_put_back_to_a_full_counter_keeps_its_number_and_loses_its_details() -> None:
    book = RejectionCounter()
    book.note(READ, NOON, "first")
    taken = book.take()
    for number in range(MAX_REJECTIONS):
        book.note(Rejection("GET /", 403, "forbidden", f"key{number}"), NOON, None)
    book.put_back(taken)
    coarse = Rejection(ANY_ACTION, READ.status, READ.code)
    assert [(one.minute, one.times, one.request_id) for one in book.take() if one.rejection == coarse] == [
        (NOON, 1, "first")
    ]


def test_the_limit_itself_is_counted_apart() -> None:
    book = RejectionCounter()
    for number in range(MAX_REJECTIONS):
        book.note(Rejection("GET /", 403, "forbidden", f"key{number}"), NOON, None)
    taken = book.take()
    assert len(taken) == MAX_REJECTIONS
    book.put_back(taken)
    assert {one.rejection for one in book.take()} == {one.rejection for one in taken}
