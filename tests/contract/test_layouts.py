"""The contract's schema of layouts: every layout that is accepted fits it, and most that are not valid do not."""

from typing import Any

import pytest

from app.ingest import WrongLayout, read_layout
from tests.contract.reading import load_contract, validator

CONTRACT = load_contract()
SCHEMA = validator(CONTRACT, CONTRACT["components"]["schemas"]["LayoutModel"])
STEPS = "/".join(["a"] * 8)


@pytest.mark.parametrize(
    "place",
    ["*", "a", "a.b", "a.*", "a_*", "/", "//", "/a", "/a.b/c", "/a/b_*", "/*", "a/b", f"/{STEPS}", f"/{STEPS}/*"],
)
def test_a_place_fits_the_contract_if_it_is_one(place: str) -> None:
    layout = {"data": place, "operation": "the_operation"}
    assert SCHEMA.is_valid(layout) == is_accepted(layout)


@pytest.mark.parametrize(
    "layout",
    [
        {},
        {"data": "a"},
        {"data": "", "operation": "op"},
        {"data": "a..b", "operation": "op"},
        {"data": ".a", "operation": "op"},
        {"data": "a.", "operation": "op"},
        {"data": "/a//b", "operation": "op"},
        {"data": "a\x00", "operation": "op"},
        {"data": ".".join(["a"] * 10), "operation": "op"},
        {"data": "a", "operation": "op", "other": "b"},
        {"data": "a", "operation": "op", "operations": {"": "insert"}},
        {"data": "a", "operation": "op", "operations": {"x" * 65: "insert"}},
        {"data": "a", "operation": "op", "operations": {str(number): "insert" for number in range(65)}},
        {"data": "a", "operation": "op", "operations": {"I": "merge"}},
    ],
)
def test_a_layout_that_is_not_valid_does_not_fit_the_contract(layout: dict[str, Any]) -> None:
    assert not is_accepted(layout)
    assert not SCHEMA.is_valid(layout)


def is_accepted(layout: dict[str, Any]) -> bool:
    try:
        read_layout(layout)
    except WrongLayout:
        return False
    return True
