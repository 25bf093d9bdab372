"""Retries of a store call: how often, after which pause, and for how long."""

from collections.abc import Callable

import pytest

from app.landing.adls.retries import StorageRejected, TransientStorageError
from tests.support.onelake.clients import FakeTime


def failing(*errors: Exception) -> Callable[[bool], list[bool]]:
    """Return a step that raises these errors one after the other, then returns what it was told each time."""
    waiting, told = list(errors), list[bool]()

    def step(unclear: bool) -> list[bool]:
        told.append(unclear)
        if waiting:
            raise waiting.pop(0)
        return told

    return step


def again(*, unclear: bool = False, after: float | None = None, few: bool = False) -> TransientStorageError:
    return TransientStorageError("again", unclear=unclear, retry_after=after, few=few)


def test_a_step_is_told_from_the_first_unclear_answer_on_that_it_may_have_been_done() -> None:
    assert FakeTime().retries().run(failing(again(), again(unclear=True), again())) == [False, False, True, True]


def test_the_pauses_grow_are_random_and_have_a_longest() -> None:
    time = FakeTime()
    time.retries(1_000).run(failing(*[again()] * 8))
    assert time.slept == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 4.0, 4.0]


def test_what_the_service_asks_for_is_waited_at_least() -> None:
    time = FakeTime()
    time.retries().run(failing(again(after=7), again(after=0)))
    assert time.slept == [7.1, 0.1]


def test_it_gives_up_before_a_pause_that_would_end_too_late() -> None:
    time = FakeTime()
    with pytest.raises(TransientStorageError):
        time.retries(10).run(failing(again(), again(after=30)))
    assert time.now < 10
    with pytest.raises(TransientStorageError):
        time.retries(10).run(failing(*[again()] * 1_000))
    assert time.now < 20


def test_some_answers_are_worth_a_few_tries_only() -> None:
    time = FakeTime()
    with pytest.raises(TransientStorageError):
        time.retries(1_000).run(failing(*[again(few=True)] * 6))
    assert len(time.slept) == 5


@pytest.mark.parametrize("error", [StorageRejected("no", status=403, code="x"), ValueError(), KeyboardInterrupt()])
def test_a_clear_answer_is_not_repeated(error: Exception) -> None:
    time = FakeTime()
    with pytest.raises(type(error)):
        time.retries().run(failing(error))
    assert time.slept == []
