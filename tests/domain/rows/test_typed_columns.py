"""Columns of one type converted together give the same values as each converted alone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.table_options import BinaryEncoding, ColumnOverride, TableOptions
from app.domain.rows import typed_columns
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_rules import RowRules
from app.errors import RejectedInput
from tests.support.samples.changes import insert
from tests.support.samples.schemas import schema_of

TYPES = {
    "id": "int64",
    "count": "int64",
    "other": "int64",
    "name": "string",
    "note": "string",
    "small": "int16",
    "day": "date",
    "at": "timestamp",
    "until": "timestamp",
    "raw": "binary",
    "raw64": "binary",
}
RULES = RowRules(
    schema_of(TYPES, ["id"]), TableOptions(columns={"raw64": ColumnOverride(encoding=BinaryEncoding.BASE64)})
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.sampled_from(["1", "-02", "9223372036854775807", 7, None]),
    "int16": st.sampled_from(["1", "32767", "1.0", None]),
    "string": st.sampled_from(["", "Ada", "Zoë", 7, None]),
    "date": st.sampled_from(["2024-02-29", None]),
    "timestamp": st.sampled_from(["2024-02-29 12:00:00", "2024-02-29T12:00:00+01", None]),
    "binary": st.sampled_from(["", "abcd", None]),
}
BAD: st.SearchStrategy[Any] = st.sampled_from(["x", "0x1", "1e", "32768", "2023-02-29", "abc", {}])


@st.composite
def images(draw: st.DrawFn) -> dict[str, Any]:
    image = {name: draw(VALUES[declared]) for name, declared in TYPES.items()}
    if draw(st.integers(0, 9)) == 0:
        image[draw(st.sampled_from(sorted(TYPES)))] = draw(BAD)
    return image


def outcome(given: list[dict[str, Any]]) -> Any:
    try:
        return landing_rows([insert(image) for image in given], RULES).batch.to_pylist()
    except RejectedInput as rejection:
        return rejection.problems


@given(rows=st.lists(images(), min_size=1, max_size=4))
def test_columns_converted_together_have_the_values_and_problems_that_they_have_alone(
    rows: list[dict[str, Any]],
) -> None:
    together = outcome(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typed_columns, "MAX_ROWS_TOGETHER", -1)
        assert outcome(rows) == together
