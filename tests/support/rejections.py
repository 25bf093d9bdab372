"""What a refusal says, in the form that tests compare."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from app.errors import Code, RejectedInput

Place = tuple[Code, int | None, str | None, str | None]
"""Code, index, pointer and column of one problem."""


@dataclass
class Refusal:
    """Filled when the block of `refused` has ended."""

    code: Code = Code.INTERNAL
    detail: str = ""
    places: list[Place] = field(default_factory=list)
    text: str = ""
    """Everything the refusal says, to look for what it must not say."""


@contextmanager
def refused() -> Iterator[Refusal]:
    """The block must raise RejectedInput."""
    refusal = Refusal()
    with pytest.raises(RejectedInput) as raised:
        yield refusal
    error = raised.value
    refusal.code, refusal.detail = error.code, error.detail
    refusal.places = [(problem.code, problem.index, problem.pointer, problem.column) for problem in error.problems]
    refusal.text = f"{error} {error.detail} {error.remedy} {error.problems}"
