"""Typing requests together gives the same rows as typing each alone, or falls back to it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.change import Change, Operation
from app.domain.rows.landing_rows import LandingRows, landing_rows, landing_rows_of_shaped
from app.domain.rows.row_rules import RowRules
from app.errors import RejectedInput
from tests.support.samples.changes import change, delete, insert, shaped, update, upsert
from tests.support.samples.schemas import schema_of

RULES = RowRules(schema_of({"name": "string", "id": "int64", "total": "decimal(9,2)"}, ["id"]))

VALUES: st.SearchStrategy[Any] = st.sampled_from([1, "1", "02", "7.00", None])
BAD_VALUES: st.SearchStrategy[Any] = st.sampled_from(["x", "1e", True])


@st.composite
def changes(draw: st.DrawFn) -> Change:
    """Draw a change of any kind; a few cannot be landed."""
    image = {"name": draw(st.sampled_from(["Ada", None])), "id": draw(VALUES), "total": draw(VALUES)}
    if draw(st.integers(0, 15)) == 0:
        image["id"] = draw(BAD_VALUES)
    if draw(st.integers(0, 15)) == 0:
        del image[draw(st.sampled_from(sorted(image)))]
    kind = draw(st.sampled_from(["insert", "upsert", "update", "delete", "insert", "upsert", "snapshot"]))
    if kind == "snapshot":
        return change(Operation.SNAPSHOT, None, image)
    if kind == "update":
        return update({"id": draw(VALUES)}, image)
    return {"insert": insert, "upsert": upsert, "delete": delete}[kind](image)


def alone(request: list[Change]) -> LandingRows | None:
    try:
        return landing_rows(request, RULES)
    except RejectedInput:
        return None


@given(requests=st.lists(st.lists(changes(), min_size=1, max_size=3), min_size=1, max_size=5))
def test_requests_typed_together_have_the_rows_they_have_alone_unless_one_is_rejected_or_has_snapshots(
    requests: list[list[Change]],
) -> None:
    each = [alone(request) for request in requests]
    together = landing_rows_of_shaped([shaped(request, RULES.schema) for request in requests], RULES)
    if together is None:
        assert any(rows is None or rows.has_snapshots for rows in each)
        return
    for rows, same in zip(together, each, strict=True):
        assert same is not None
        assert rows.batch.equals(same.batch)
        assert (rows.changes, rows.starts_cdc, rows.source_position) == (same.changes, same.starts_cdc, None)
