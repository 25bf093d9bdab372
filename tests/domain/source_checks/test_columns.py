"""Which columns are compared with the source."""

import pytest

from app.domain.model.table_schema import Column, ColumnType, TableSchema
from app.domain.source_checks import compared_columns
from app.errors import RejectedInput

SCHEMA = TableSchema.declare(
    tuple(
        Column(name, ColumnType.parse(of), nullable=name != "id")
        for name, of in {"id": "int64", "note": "string", "ratio": "float64", "extra": "json", "city": "string"}.items()
    ),
    ("id",),
)


def names(chosen: list[str] | None) -> list[str]:
    return [column.name for column in compared_columns(SCHEMA, chosen)]


def test_columns_that_databases_write_differently_are_left_out() -> None:
    assert names(None) == ["id", "note", "city"]


def test_the_key_is_always_compared() -> None:
    assert names(["note"]) == ["id", "note"]


@pytest.mark.parametrize(
    ("chosen", "code"), [(["ratio"], "not_comparable"), (["extra"], "not_comparable"), (["nope"], "unknown_column")]
)
def test_a_chosen_column_that_cannot_be_compared_is_named(chosen: list[str], code: str) -> None:
    with pytest.raises(RejectedInput, match=chosen[0]) as caught:
        compared_columns(SCHEMA, chosen)
    assert caught.value.code == code


def test_a_masked_column_is_left_out_and_cannot_be_chosen() -> None:
    assert [column.name for column in compared_columns(SCHEMA, None, {"note"})] == ["id", "city"]
    with pytest.raises(RejectedInput, match="'note' is masked"):
        compared_columns(SCHEMA, ["note"], {"note"})
    with pytest.raises(RejectedInput, match="'id' is masked"):
        compared_columns(SCHEMA, None, {"id"})


def test_columns_that_left_the_source_are_left_out_unless_they_are_chosen() -> None:
    assert [column.name for column in compared_columns(SCHEMA, None, left={"note"})] == ["id", "city"]
    with pytest.raises(RejectedInput, match="'note' has left the source"):
        compared_columns(SCHEMA, ["note"], left={"note"})


def test_a_table_without_keys_cannot_be_compared() -> None:
    with pytest.raises(RejectedInput, match=r": a table without key columns cannot be compared with its source$"):
        compared_columns(TableSchema(SCHEMA.columns), None)
