"""Which rejections become dead letters, and in which order messages are left out."""

from app.domain.model.dead_letter import MAX_LETTER_ERRORS, errors_of, is_kept, to_set_aside
from mirrorgate.errors import Code, Kind, Problem
from mirrorgate.errors.codes import KEPT


def problem(code: Code, index: int | None = 0, column: str | None = None) -> Problem:
    return Problem(code, "detail", index, None, column)


def test_what_is_kept_is_the_fault_of_one_message() -> None:
    assert {code.kind for code in KEPT} == {Kind.INVALID}


def test_a_message_is_kept_when_each_of_its_problems_is_its_own() -> None:
    assert is_kept([problem(Code.BAD_VALUE), problem(Code.NULL_KEY)])
    assert not is_kept([])
    assert not is_kept([problem(Code.BAD_VALUE, index=None)])
    assert not is_kept([problem(Code.BAD_VALUE), problem(Code.RELOAD_REQUIRES_RECREATE)])


def test_messages_are_left_out_by_index_with_all_their_problems() -> None:
    problems = [problem(Code.BAD_VALUE, 3), problem(Code.NULL_KEY, 1), problem(Code.NULL_VALUE, 3)]
    assert [(one.index, len(one.problems)) for one in to_set_aside(problems)] == [(1, 1), (3, 2)]


def test_a_message_with_another_problem_is_not_left_out() -> None:
    problems = [problem(Code.BAD_VALUE, 0), problem(Code.RELOAD_REQUIRES_RECREATE, 0), problem(Code.BAD_OP, 1)]
    assert [one.index for one in to_set_aside([*problems, problem(Code.BAD_VALUE, None)])] == [1]


def test_updates_that_may_lack_a_value_because_of_a_rejected_message_are_left_out_last() -> None:
    incomplete = [problem(Code.INCOMPLETE_UPDATE, 0, "new")]
    assert [one.index for one in to_set_aside([*incomplete, problem(Code.BAD_VALUE, 1)])] == [1]
    assert [one.index for one in to_set_aside(incomplete)] == [0]
    wrong_too = [*incomplete, problem(Code.BAD_VALUE, 0)]
    assert [one.index for one in to_set_aside([*wrong_too, problem(Code.BAD_VALUE, 1)])] == [1]


def test_errors_are_shown_without_what_they_lack_and_are_bounded() -> None:
    shown = errors_of([problem(Code.NULL_KEY, 0, "id")] * (MAX_LETTER_ERRORS + 1))
    assert (len(shown), shown[0]) == (MAX_LETTER_ERRORS, {"code": "null_key", "detail": "detail", "column": "id"})
