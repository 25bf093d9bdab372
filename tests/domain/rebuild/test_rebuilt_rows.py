"""Rows of a rebuild are those of ingestion under the new schema, from plain images too."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.model.change import Change, Operation, SourceValue
from app.domain.model.table import BatchSequence, with_landing
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import ColumnType, TableSchema
from app.domain.model.written_values import fraction
from app.domain.rebuild import (
    AuditedRows,
    RebuildPlan,
    RebuiltRows,
    UnfitRows,
    deletes_of,
    merged,
    plain_values,
    plan_rebuild,
    projected_batch,
    rebuilt_rows,
)
from app.domain.rows.landing_projection import Acceptance
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_image import decode_image, encode_image, encode_images
from app.domain.rows.row_rules import RowMarker, RowRules
from mirrorgate.errors import Code, RejectedInput
from tests.support.samples.schemas import active_table, schema_of

OPTIONS: Final = TableOptions.parse({"partial_updates": "complete"})
TYPES: Final = [
    *(
        "int16",
        "int64",
        "float32",
        "float64",
        "decimal(9,2)",
        "decimal(18,4)",
        "decimal(38,0)",
        "string",
        "binary",
        "json",
    ),
    *("date", "timestamp", "boolean"),
]
VALUES: Final = st.one_of(
    st.sampled_from(["1e5", "-1E+3", "1e-7", "0e99999", "0.0000001", "12345678901234567890123", "-0.0e-0000000"]).map(
        fraction
    ),
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


def fitting(images: list[bytes], plan: RebuildPlan, columns: int, **how: Any) -> RebuiltRows:
    """Return the rows of images whose values all fit."""
    found = rebuilt_rows(images, plan, columns, **how)
    assert isinstance(found, RebuiltRows)
    return found


def test_what_an_image_does_not_know_lands_null_and_stays_unknown() -> None:
    schema = schema_of({"b": "int64", "id": "int64", "c": "string"}, ["id"])
    images = [encode_image([1, 2], [1]), encode_image([2, 5])]
    found = fitting(images, plan_for(schema, (1, 0, 2)), 3)
    assert found.batch.column(0).to_pylist() == [None, 5]
    assert [decode_image(image) for image in found.images.to_pylist()] == [{1: 1, 2: None}, {0: 5, 1: 2, 2: None}]


def test_a_delete_has_the_key_alone() -> None:
    schema = schema_of({"id": "int64", "total": "decimal(9,2)"}, ["id"])
    found = fitting([encode_image([at, at]) for at in (1, 2, 3)], plan_for(schema, (0, 1)), 2)
    assert deletes_of(found, plan_for(schema, (0, 1)), [0, 2]).to_pylist() == [
        {"id": 1, "total": None, "__rowMarker__": 2},
        {"id": 3, "total": None, "__rowMarker__": 2},
    ]
    assert deletes_of(found, plan_for(schema, (0, 1)), []).num_rows == 0


def test_an_image_whose_columns_stay_is_not_written_again() -> None:
    schema = schema_of({"id": "int64", "total": str(ColumnType.parse("decimal(18,4)"))}, ["id"])
    image = b"[ 1 , 2.50]"
    found = fitting([image], plan_for(schema, (0, 1)), 2)
    assert (found.images.to_pylist(), found.batch.column(1).to_pylist()) == ([image], [Decimal("2.5000")])


def test_a_column_that_an_image_is_too_old_to_have_is_null() -> None:
    found = fitting([b"[1]", b"[2,5,6]"], plan_for(schema_of({"id": "int64", "c": "int64"}, ["id"]), (0, 2)), 3)
    assert (found.batch.column(1).to_pylist(), found.images.to_pylist()) == ([None, 6], [b"[1,null]", b"[2,6]"])
    same = fitting([b"[1]"], plan_for(schema_of({"id": "int64", "b": "int64"}, ["id"]), (0, 1)), 2)
    assert (same.batch.column(1).to_pylist(), same.images.to_pylist()) == ([None], [b"[1]"])


def test_what_does_not_fit_is_counted_by_column_and_reason_from_the_first_row() -> None:
    schema = schema_of({"id": "int64", "a": "int16", "b": "string"}, ["id"], required=["b"])
    rows: list[list[Any]] = [[1, 1, "x"], [2, "x", None], [None, 2**20, None], ["x", 1, "x"]]
    assert rebuilt_rows([encode_image(row) for row in rows], plan_for(schema, (0, 1, 2)), 3) == [
        UnfitRows("id", Code.NULL_KEY, 1, 3),
        UnfitRows("id", Code.BAD_VALUE, 1, 4),
        UnfitRows("a", Code.BAD_VALUE, 2, 2),
        UnfitRows("b", Code.NULL_VALUE, 2, 2),
    ]


def test_escapes_in_texts_are_read_as_what_they_mean() -> None:
    plan = plan_for(schema_of({"t": "string", "id": "int64"}, ["id"]), (0, 1))
    for texts in (["x\ny", "\\", "\u00e9\u0001", "plain"], ["\\"], ["\n"]):
        found = fitting([encode_image([text, "1"]) for text in texts], plan, 2)
        assert found.batch.column(0).to_pylist() == texts


def test_no_images_are_no_rows() -> None:
    found = fitting([], plan_for(schema_of({"id": "int64", "a": "string"}, ["id"]), (1, 0)), 2)
    assert [len(part) for part in found] == [0, 0, 0]


def test_findings_of_parts_add_up_by_column_and_reason() -> None:
    parts = [
        UnfitRows("A", Code.BAD_VALUE, 2, 40),
        UnfitRows(None, Code.KEY_IN_USE, 1, 3),
        UnfitRows("A", Code.BAD_VALUE, 3, 7),
    ]
    assert merged(parts) == [UnfitRows(None, Code.KEY_IN_USE, 1, 3), UnfitRows("A", Code.BAD_VALUE, 5, 7)]


def test_the_image_of_a_deleted_row_stays_one_in_other_columns() -> None:
    schema = schema_of({"b": "int64", "id": "int64"}, ["id"])
    images = [encode_image([1, 2], is_deleted=True), encode_image([2, 5])]
    found = fitting(images, plan_for(schema, (1, 0)), 2)
    assert found.images.to_pylist() == [b'{"-2":true,"-1":2,"0":2,"1":1}', b"[5,2]"]
    assert found.deleted == [True, False]


SMALL: Final = schema_of({"id": "int64", "name": "string"}, ["id"], required=["id"])
ACCEPTED: Final = datetime(2026, 11, 23, tzinfo=UTC)


def next_files(options: dict[str, Any], deleted: Sequence[bool] = (False, False)) -> list[dict[str, Any]]:
    """Return two rows, of which the second one is marked as an update, as files of the next generation have them."""
    chosen = TableOptions.parse({"row_images": "on", **options})
    table = active_table(with_landing(SMALL, chosen), chosen, images_complete=True)
    plan = plan_rebuild(table)
    found = fitting([encode_image([1, "Ada"]), encode_image([2, "Bob"])], plan, 2, marker=RowMarker.UPSERT)
    audited = AuditedRows([Operation.INSERT, Operation.UPDATE], deleted)
    rebuilt, acceptance = plan.rebuilt(table), Acceptance(BatchSequence(3), ACCEPTED)
    batch = projected_batch(found.batch, audited, rebuilt, acceptance) if rebuilt.is_projected else found.batch
    assert batch.schema.names == [*plan.schema.landing.names, "__rowMarker__"]
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


ADA: Final = {"id": 1, "name": "Ada", "__rowMarker__": 4}
BOB: Final = {"id": 2, "name": "Bob", "__rowMarker__": 4}


def test_rows_land_in_the_files_of_the_next_generation_as_its_options_say() -> None:
    assert next_files({}) == [ADA, BOB]
    audit = {"operation": "op", "accepted_at": "at", "row_order": "n", "source_position": "pos"}
    known = {"at": ACCEPTED, "pos": None}
    assert next_files({"audit_columns": audit}) == [
        {**ADA, "op": "insert", "n": 3 * 2**32, **known},
        {**BOB, "op": "update", "n": 3 * 2**32 + 1, **known},
    ]
    only_bob = {"column": "name", "op": "=", "value": "Bob"}
    assert next_files({"filter": only_bob}) == [{"id": 1, "name": None, "__rowMarker__": 2}, BOB]
    flags = {"deletes": "flag", "audit_columns": {"deleted": "gone"}}
    assert next_files(flags, [True, False]) == [{**ADA, "gone": True}, {**BOB, "gone": False}]


def test_derived_columns_are_computed_again_for_every_row_and_are_null_where_they_cannot_be() -> None:
    rows = next_files({"derive": {"share": "1 / (id - 1)", "label": "name || '!'"}})
    assert [(row["share"], row["label"]) for row in rows] == [(None, "Ada!"), (1.0, "Bob!")]


PLAIN: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.sampled_from(["", "null", "true", "[", "]", ",", "é,€", "1", "a]", " a ", "{", " ,"]),
    st.text("ab,[]{}:'1 "),
)
ANY: Final = st.one_of(PLAIN, VALUES.filter(lambda value: value is None or isinstance(value, str)), st.text())
NESTED: Final = st.one_of(ANY, st.floats(allow_nan=False), st.lists(st.text("a")), st.dictionaries(st.text("a"), ANY))


def table_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[Any]]]:
    return st.integers(1, 4).flatmap(
        lambda width: st.lists(st.lists(values, min_size=width, max_size=width), min_size=1, max_size=5)
    )


def as_written(value: SourceValue) -> str | None:
    return value if isinstance(value, str | None) else json.dumps(value)


@given(table_of(PLAIN))
def test_plain_values_are_columns_and_their_images_are_those_of_json(rows: list[list[Any]]) -> None:
    images = encode_images(rows)
    found = plain_values(images, len(rows[0]))
    assert found is not None
    by_row = [list(row) for row in zip(*(column.to_pylist() for column in found.columns), strict=True)]
    assert by_row == [[as_written(value) for value in row] for row in rows]
    assert found.are_texts.tolist() == [[isinstance(value, str | None) for value in row] for row in rows]
    assert found.images().to_pylist() == images


@given(table_of(NESTED), st.sampled_from([(",", ":"), (", ", ": "), (" ,", ":"), (",\t", ":")]), st.integers(0, 5))
@example([["a", "b"]], (" ,", ":"), 2)
@example([[1, "b"]], (" ,", ":"), 2)
@example([["a"], ["b", "c"]], (",", ":"), 1)
@example([["a", "b"], ["c"]], (",", ":"), 2)
@example([[{"a": "b"}]], (",", ":"), 1)
def test_columns_are_the_values_of_json_or_there_are_none(
    rows: list[list[Any]], separators: tuple[str, str], width: int
) -> None:
    images = [json.dumps(row, separators=separators, ensure_ascii=False).encode() for row in rows]
    found = plain_values(images, width)
    if found is not None:
        decoded = [msgspec.json.decode(image) for image in images]
        by_row = [list(row) for row in zip(*(column.to_pylist() for column in found.columns), strict=True)]
        read = [
            [value if is_text else msgspec.json.decode(value) for value, is_text in zip(*row, strict=True)]
            for row in zip(by_row, found.are_texts.tolist(), strict=True)
        ]
        assert read == decoded


def test_images_that_do_not_know_a_column_or_are_of_deleted_rows_are_not_plain() -> None:
    for image in (b'{"-1":2,"0":"a"}', b'{"-2":true,"-1":2,"0":"a","1":"b"}'):
        assert plain_values([image, b'["a","b"]'], 2) is None
        assert plain_values([b'["a","b"]', image], 2) is None
        assert plain_values([image], 2) is None
    assert plain_values([], 2) is None
