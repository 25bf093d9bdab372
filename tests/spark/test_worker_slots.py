"""Work is spread evenly over the slots, and none is left out."""

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.scheduling import balance

WEIGHTS = st.lists(st.integers(min_value=1, max_value=1000), max_size=50)


@given(WEIGHTS, st.integers(min_value=1, max_value=8))
def test_every_item_is_in_exactly_one_bin_and_no_bin_is_empty(weights: list[int], bins: int) -> None:
    filled = balance(weights, lambda weight: weight, bins)
    assert sorted(item for members in filled for item in members) == sorted(weights)
    assert all(filled) and len(filled) <= bins


@given(WEIGHTS.filter(bool), st.integers(min_value=1, max_value=8))
def test_no_bin_is_heavier_than_the_mean_and_one_item(weights: list[int], bins: int) -> None:
    heaviest = max(sum(members) for members in balance(weights, lambda weight: weight, bins))
    assert heaviest <= sum(weights) / bins + max(weights)
