"""Row images as rows of the next generation: equal to what ingestion makes of the same values, or named."""

from decimal import Decimal
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.change import Change, Operation
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import ColumnType, TableSchema
from app.domain.rebuild.plan import RebuildPlan
from app.domain.rebuild.rebuilt_rows import Finding, RebuiltRows, deletes_of, merged, rebuilt_rows
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_image import decode_image, encode_image
from app.domain.rows.row_rules import RowRules
from app.errors import Code, RejectedInput
from tests.support.samples.schemas import schema_of

OPTIONS: Final = TableOptions.parse({"partial_updates": "complete"})
TYPES: Final = ["int16", "int64", "float64", "decimal(9,2)", "decimal(18,4)", "string", "date", "timestamp", "boolean"]
VALUES: Final = st.one_of(
    st.none(),
    st.integers(-(2**40), 2**40),
    st.decimals(-99_999, 99_999, places=3),
    st.booleans(),
    st.sampled_from(["", "7", "-0.5", "1e3", "text", "2024-02-29", "2024-02-29 12:00:00", "true"]),
)
ROWS: Final = st.lists(
    st.tuples(st.integers(0, 10**6), VALUES, VALUES), min_size=1, max_size=20, unique_by=lambda r: r[0]
)


def plan_for(schema: TableSchema, places: tuple[int, ...]) -> RebuildPlan:
    return RebuildPlan(schema, OPTIONS, places)


@given(ROWS, st.sampled_from(TYPES), st.sampled_from(TYPES), st.permutations([0, 1, 2]), st.data())
def test_rows_keys_and_images_are_those_of_ingestion_under_the_new_schema(
    rows: list[tuple[Any, ...]], first: str, second: str, places: list[int], data: st.DataObject
) -> None:
    kept = tuple(places if data.draw(st.booleans()) else [place for place in places if place != 1])
    types, names = ["int64", first, second], ["id", "a", "b"]
    schema = schema_of({names[at]: types[at] for at in kept}, ["id"])
    changes = [
        Change(at, Operation.INSERT, None, {names[place]: row[place] for place in kept}, "", "")
        for at, row in enumerate(rows)
    ]
    found = rebuilt_rows([encode_image(row) for row in rows], plan_for(schema, kept), 3, first_row=100)
    try:
        expected = landing_rows(changes, RowRules(schema, OPTIONS))
    except RejectedInput as rejection:
        assert isinstance(found, list)
        named = {(one.column, one.rows, one.first_row) for one in found}
        wrong: dict[str | None, list[int]] = {}
        for problem in rejection.problems:
            wrong.setdefault(problem.column, []).append(problem.index or 0)
        assert named == {(name, len(at), 100 + min(at)) for name, at in wrong.items()}
        return
    assert isinstance(found, RebuiltRows)
    assert found.batch.equals(expected.batch)
    assert expected.images is not None
    assert found.keys.to_pylist() == list(expected.images.keys)
    assert [decode_image(image) for image in found.images.to_pylist()] == [
        decode_image(image) for image in expected.images.images if image is not None
    ]


def test_what_an_image_does_not_know_lands_null_and_stays_unknown() -> None:
    schema = schema_of({"b": "int64", "id": "int64", "c": "string"}, ["id"])
    images = [encode_image([1, 2], [1]), encode_image([2, 5])]
    found = rebuilt_rows(images, plan_for(schema, (1, 0, 2)), 3)
    assert isinstance(found, RebuiltRows)
    assert found.batch.column(0).to_pylist() == [None, 5]
    assert [decode_image(image) for image in found.images.to_pylist()] == [{1: 1, 2: None}, {0: 5, 1: 2, 2: None}]


def test_a_delete_has_the_key_alone() -> None:
    schema = schema_of({"id": "int64", "total": "decimal(9,2)"}, ["id"])
    found = rebuilt_rows([encode_image([at, at]) for at in (1, 2, 3)], plan_for(schema, (0, 1)), 2)
    assert isinstance(found, RebuiltRows)
    assert deletes_of(found, plan_for(schema, (0, 1)), [0, 2]).to_pylist() == [
        {"id": 1, "total": None, "__rowMarker__": 2},
        {"id": 3, "total": None, "__rowMarker__": 2},
    ]


def test_an_image_whose_columns_stay_is_not_written_again() -> None:
    schema = schema_of({"id": "int64", "total": str(ColumnType.parse("decimal(18,4)"))}, ["id"])
    image = b"[ 1 , 2.50]"
    found = rebuilt_rows([image], plan_for(schema, (0, 1)), 2)
    assert isinstance(found, RebuiltRows)
    assert (found.images.to_pylist(), found.batch.column(1).to_pylist()) == ([image], [Decimal("2.5000")])


def test_findings_of_parts_add_up_by_column_and_reason() -> None:
    parts = [
        Finding("a", Code.BAD_VALUE, 2, 40),
        Finding(None, Code.KEY_IN_USE, 1, 3),
        Finding("a", Code.BAD_VALUE, 3, 7),
    ]
    assert merged(parts) == [Finding(None, Code.KEY_IN_USE, 1, 3), Finding("a", Code.BAD_VALUE, 5, 7)]
