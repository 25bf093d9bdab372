"""The content of a rejection, in a form that tests compare."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from mirrorgate.errors import Code, RejectedInput

Place = tuple[Code, int | None, str | None, str | None]
"""Code, index, pointer and column of one problem."""


@dataclass
class Rejection:
    """Filled when the block of `rejected` has ended."""

    code: Code = Code.INTERNAL
    detail: str = ""
    places: list[Place] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    """What each problem says."""
    text: str = ""
    """Everything the rejection says, to look for what it must not say."""


@contextmanager
def rejected(code: Code | None = None, *, places: list[Place] | None = None) -> Iterator[Rejection]:
    """Yield a Rejection that is filled once the block has raised RejectedInput.

    Fail if the block raises nothing, another code than `code`, or problems at other places than `places`.
    """
    rejection = Rejection()
    with pytest.raises(RejectedInput) as raised:
        yield rejection
    error = raised.value
    rejection.code, rejection.detail = error.code, error.detail
    rejection.places = [(problem.code, problem.index, problem.pointer, problem.column) for problem in error.problems]
    rejection.details = [problem.detail for problem in error.problems]
    rejection.text = f"{error} {error.detail} {error.remedy} {error.problems}"
    assert code is None or error.code is code, rejection.text
    assert places is None or rejection.places == places, rejection.places
