"""Columns that come and go: options `new_columns`, `dropped_columns` and `exclude`."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from app.domain.model.names import TableName
from app.domain.model.table import DropAction, DropPlan
from app.formats.arcion.csv import CsvLayout, CsvMode
from app.ingest import ArrowLoad
from mirrorgate.errors import Code
from tests.support.gateway_parts import next_generation
from tests.support.ingest_harness import IngestHarness
from tests.support.rejections import rejected
from tests.support.samples.arrow_streams import stream
from tests.support.samples.messages import arcion, data, metadata
from tests.support.samples.schemas import schema_of

ID = schema_of({"id": "int64"}, ["id"], ["id"])
NAMED = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])


def declared(harness: IngestHarness, name: str = "t") -> list[tuple[str, str, bool]]:
    return [(column.name, str(column.type), column.nullable) for column in harness.table(name).schema.columns]


def test_new_columns_are_added_as_nullable_text_in_order_of_appearance(harness: IngestHarness) -> None:
    harness.put("t", ID, new_columns="add_as_string")
    harness.arcion(
        arcion("t", None, {"id": "1", "z": "1"}),
        arcion("t", {"id": "1", "gone": "x"}),
        arcion("t", None, {"b": None, "id": "2", "z": None, "a": "3"}),
    )
    table = harness.table("t")
    assert declared(harness) == [("id", "int64", False), *((name, "string", True) for name in "zba")]
    assert (table.schema_version, table.revision) == (2, 1)
    landed = [[0, 1, "1", None, None], [2, 1, None, None, None], [0, 2, None, None, "3"]]
    assert harness.landed("t", "id", "z", "b", "a") == landed


def test_replicate_values_of_any_kind_become_text_and_containers_json_text(harness: IngestHarness) -> None:
    harness.put("t", ID, new_columns="add_as_string")
    harness.replicate(data("INSERT", {"id": 1, "n": 1.50, "b": True, "s": "x"}), table="t")
    assert harness.landed("t", "n", "b", "s") == [[0, "1.5", "true", "x"]]
    harness.replicate(data("INSERT", {"id": 2, "n": 1, "b": 0, "s": "x", "list": [{"a": 1.50}]}), table="t")
    assert harness.landed("t", "list") == [[0, None], [0, '[{"a":1.5}]']]
    assert [(name, of) for name, of, _ in declared(harness)][-1] == ("list", "string")


def test_the_columns_of_a_csv_header_are_added(harness: IngestHarness) -> None:
    harness.put("t", ID, new_columns="add_as_string")
    harness.csv("note, id\n x ,1 \n", "t", CsvLayout(CsvMode.SNAPSHOT, header=True))
    assert harness.rows("t") == [{"id": 1, "note": " x ", "__rowMarker__": 0}]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("__ROWMARKER__", Code.RESERVED_NAME),
        ("", Code.BAD_NAME),
        ("Good", Code.BAD_SCHEMA),
    ],
)
def test_a_name_that_no_file_can_have_is_rejected_with_its_message_and_nothing_is_added(
    harness: IngestHarness, name: str, code: Code
) -> None:
    harness.put("t", ID, new_columns="add_as_string")
    good, bad = (arcion("t", None, {"id": "1", column: "x"}) for column in ("good", name))
    with rejected(places=[(code, 1, f"/after/{name}", name)]):
        harness.arcion(good, bad, bad)
    assert harness.table("t").schema == ID


def test_a_csv_header_with_a_bad_name_is_rejected_with_the_line_that_brings_it(harness: IngestHarness) -> None:
    harness.put("t", ID, new_columns="add_as_string")
    with rejected(places=[(Code.BAD_NAME, 0, "/after/", "")]) as rejection:
        harness.csv("id,\n1,x\n", "t", CsvLayout(CsvMode.SNAPSHOT, header=True))
    assert rejection.detail.startswith("line 2: ")


@pytest.mark.parametrize(
    "wrong",
    [
        arcion("s.t", None, {"id": "no number", "note": "x"}),
        arcion("s.t", {"id": "1"}, {"note": "x"}),
        arcion("nowhere", None, {"id": "1"}),
    ],
    ids=["bad value", "partial update", "another table unknown"],
)
def test_nothing_is_added_when_the_request_is_rejected_otherwise(
    harness: IngestHarness, wrong: dict[str, object]
) -> None:
    before = harness.put("s.t", NAMED, new_columns="add_as_string").table
    with rejected():
        harness.arcion(arcion("s.t", None, {"id": "1", "note": "x"}, catalog="c"), wrong)
    assert harness.table("s.t") == before


def test_nothing_is_added_when_no_row_image_completes_a_partial_update(harness: IngestHarness) -> None:
    before = harness.put("s.t", NAMED, new_columns="add_as_string", partial_updates="complete").table
    new = arcion("s.t", None, {"id": "1", "name": "Ada", "note": "x"}, catalog="c")
    for partial in ({"id": "2", "note": "x"}, {"id": "3", "name": "Bob", "other": "x"}):
        with rejected() as rejection:
            harness.arcion(new, arcion("s.t", {"id": partial["id"]}, partial))
        assert {place[0] for place in rejection.places} == {Code.INCOMPLETE_UPDATE}
        assert harness.table("s.t") == before
    harness.arcion(new, arcion("s.t", {"id": "1"}, {"id": "1", "note": "y"}))
    assert harness.landed("s.t", "name", "note") == [[0, "Ada", "x"], [1, "Ada", "y"]]


def test_what_was_accepted_before_adds_no_columns(harness: IngestHarness) -> None:
    harness.put("t", ID, new_columns="add_as_string", source_order="enforce")
    harness.replicate(data("INSERT", {"id": 1}, sequence=5), table="t")
    again = data("INSERT", {"id": 1, "note": "x", "\t": "y"}, sequence=5)
    assert harness.replicate(again, data("INSERT", {"id": 2}, sequence=6), table="t").duplicates == 1
    assert harness.table("t").schema == ID


def test_two_processes_that_bring_columns_at_once_add_each_once_and_lose_no_row(harness: IngestHarness) -> None:
    harness.put("t", ID, new_columns="add_as_string")
    for process in (harness, harness.other):
        process.arcion(arcion("t", None, {"id": "0"}))
    with ThreadPoolExecutor(4) as pool:
        posts = [
            pool.submit(process.arcion, arcion("t", None, {"id": str(number), "both": "x", column: str(number)}))
            for number in range(4)
            for process, column in ((harness, "one"), (harness.other, "two"))
        ]
        receipts = [post.result() for post in posts]
    assert len(receipts) == 8
    assert {name for name, *_ in declared(harness)} == {"id", "both", "one", "two"}
    rows = harness.rows("t")[2:]
    assert sorted((row["both"], row.get("one") or row.get("two"), row["id"]) for row in rows) == [
        ("x", str(number), number) for number in range(4) for _ in range(2)
    ]


def test_a_typed_column_of_later_metadata_beside_an_added_text_column_is_a_conflict(harness: IngestHarness) -> None:
    harness.put("S.T", ID, new_columns="add_as_string")
    harness.replicate(data("INSERT", {"id": 1, "n": 7}), table="S.T")
    with rejected(Code.INCOMPATIBLE_SCHEMA):
        harness.replicate(metadata("S.T", {"id": "INT8", "n": "INT4"}))


def test_a_process_that_remembers_the_former_generation_completes_a_new_column_from_present_images(
    harness: IngestHarness,
) -> None:
    """The new column lets the process look at row images before it stages: of the generation that it remembers."""
    wide = schema_of({"id": "int64", "name": "string", "later": "string"}, ["id"], ["id"])
    options = {"new_columns": "add_as_string", "partial_updates": "complete", "reload": "upsert"}
    harness.put("t", NAMED, **options)
    harness.arcion(arcion("t", None, {"id": "1", "name": "former"}))
    next_generation(harness.engine, "t", DropPlan(DropAction.RECREATE))
    harness.other.put("t", wide, **options)
    harness.other.arcion(arcion("t", None, {"id": "2", "name": "present", "later": "a"}))
    harness.arcion(
        arcion("t", None, {"id": "3", "name": "x", "later": "b"}),
        arcion("t", {"id": "2"}, {"id": "2", "later": "c"}),
    )
    assert harness.landed("t", "id", "name", "later")[-1][1:] == [2, "present", "c"]


WIDE = schema_of({"id": "int64", "name": "string", "fax": "string"}, ["id"], ["id"])
NARROW = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])
ADA = {"id": "1", "name": "Ada"}


def test_a_column_that_leaves_by_put_lands_null_for_updates_that_no_longer_give_it(harness: IngestHarness) -> None:
    harness.put("t", WIDE)
    with rejected(places=[(Code.INCOMPLETE_UPDATE, 0, "/after/fax", "fax")]):
        harness.arcion(arcion("t", ADA, ADA))
    registration = harness.put("t", NARROW)
    assert (registration.outcome, registration.table.schema) == ("configured", WIDE)
    harness.arcion(arcion("t", ADA, ADA), arcion("t", ADA, {**ADA, "fax": "7"}))
    assert harness.landed("t", "fax") == [[1, None], [1, "7"]]
    assert harness.put("t", NARROW).outcome == "unchanged"


def test_a_column_that_comes_back_is_needed_again(harness: IngestHarness) -> None:
    harness.put("t", WIDE)
    harness.put("t", NARROW)
    harness.arcion(arcion("t", ADA, ADA))
    table = harness.put("t", WIDE).table
    assert (table.left_columns, table.late_columns, table.schema_version) == (frozenset(), {"fax": 1}, 1)
    with rejected(Code.INCOMPLETE_UPDATE):
        harness.arcion(arcion("t", ADA, ADA))


@pytest.mark.parametrize(
    "plan", [DropPlan(DropAction.RENAME, new_name=TableName.parse("u")), DropPlan(DropAction.RECREATE)]
)
@pytest.mark.parametrize("row_images", ["on", "off"])
def test_a_column_that_left_stays_away_in_the_next_generation(
    harness: IngestHarness, plan: DropPlan, row_images: str
) -> None:
    harness.put("t", WIDE, row_images=row_images)
    harness.put("t", NARROW)
    next_generation(harness.engine, "t", plan)
    name = str(plan.new_name or "t")
    harness.arcion(arcion(name, ADA, ADA))
    assert (harness.table(name).left_columns, harness.landed(name, "fax")) == ({"fax"}, [[1, None]])


def test_rows_that_lack_a_column_lack_it_after_a_rename_too(harness: IngestHarness) -> None:
    harness.put("t", WIDE, row_images="on")
    harness.put("t", NARROW)
    harness.arcion(arcion("t", None, ADA))
    assert harness.put("t", WIDE).table.late_columns == {"fax": 1}
    next_generation(harness.engine, "t", DropPlan(DropAction.RENAME, new_name=TableName.parse("u")))
    harness.arcion(arcion("u", None, {**ADA, "id": "2", "fax": "7"}))
    assert harness.table("u").late_columns == {"fax": 1}


def test_a_column_that_leaves_by_metadata_lands_null_also_for_arcion_updates(harness: IngestHarness) -> None:
    harness.replicate(metadata("S.T", {"id": "INT8", "name": "STRING", "fax": "STRING"}))
    harness.replicate(data("INSERT", {"id": 1, "name": "Ada", "fax": "7"}, schema_id="S.T-1"))
    harness.replicate(
        metadata("S.T", {"id": "INT8", "name": "STRING"}, version=2),
        data("UPDATE", ADA, ADA, schema_id="S.T-2", columnMask="03"),
    )
    harness.arcion(arcion("S.T", ADA, ADA))
    assert harness.landed("S.T", "name", "fax") == [[0, "Ada", "7"], [1, "Ada", None], [1, "Ada", None]]
    assert harness.table("S.T").left_columns == {"fax"}


def test_data_before_the_metadata_that_drops_a_column_still_has_it(harness: IngestHarness) -> None:
    harness.replicate(metadata("S.T", {"id": "INT8", "fax": "STRING"}))
    harness.replicate(
        data("UPDATE", {"id": 1, "fax": "7"}, {"id": 1}, schema_id="S.T-1"),
        metadata("S.T", {"id": "INT8"}, version=2),
        data("UPDATE", {"id": 1}, {"id": 1}, schema_id="S.T-2"),
    )
    assert harness.landed("S.T", "fax") == [[1, "7"], [1, None]]


def test_options_alone_say_nothing_of_the_columns_that_the_source_has(harness: IngestHarness) -> None:
    harness.put("t", WIDE)
    harness.put("t", NARROW)
    assert harness.put("t", new_columns="add_as_string").table.left_columns == {"fax"}
    assert harness.put("t", exclude=["name"]).table.left_columns == {"fax", "name"}
    assert harness.put("t", exclude=[]).table.left_columns == {"fax"}


SCHEMA = schema_of({"id": "int64", "name": "string", "secret": "string"}, ["id"], ["id"])


def test_an_excluded_column_of_a_put_does_not_become_one_of_the_table(harness: IngestHarness) -> None:
    assert harness.put("t", SCHEMA, exclude=["secret"]).table.schema.names == ("id", "name")
    harness.arcion(arcion("t", None, {"id": "1", "name": "Ada", "secret": "x"}))
    harness.arcion(arcion("t", {"id": "1", "secret": "x"}, {"id": "1", "name": "Bob", "secret": "y"}))
    assert harness.landed("t", "id", "name") == [[0, 1, "Ada"], [1, 1, "Bob"]]


def test_an_excluded_column_of_a_csv_file_is_left_out(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, exclude=["secret"])
    harness.csv("1,Ada,x\n", "t", CsvLayout(CsvMode.SNAPSHOT, ("id", "name", "secret")))
    assert harness.rows("t") == [{"id": 1, "name": "Ada", "__rowMarker__": 0}]


@pytest.mark.parametrize("in_schema", [True, False], ids=["excluded later", "excluded from the start"])
def test_an_excluded_column_of_an_arrow_load_is_left_out(harness: IngestHarness, in_schema: bool) -> None:
    if in_schema:
        harness.put("t", SCHEMA)
    harness.put("t", SCHEMA, exclude=["secret"])
    rows = pa.table({"id": [1], "name": ["Ada"], "secret": pa.array([7])})
    harness.accept_load(ArrowLoad(TableName.parse("t"), stream(rows)))
    assert harness.landed("t", "id", "name", "secret") == [[0, 1, "Ada", None]]


def test_excluded_columns_of_metadata_are_neither_columns_nor_needed_in_data(harness: IngestHarness) -> None:
    harness.put("S.T", schema_of({"id": "int64"}, ["id"]), exclude=["doc", "odd", "small"])
    odd = {"type": "NUMERIC", "precision": 0}
    harness.replicate(metadata("S.T", {"id": "INT8", "doc": "NCLOB", "odd": odd, "small": "UINT1", "name": "STRING"}))
    assert harness.table("S.T").schema.names == ("id", "name")
    whole = {"id": 1, "doc": "x", "odd": "1e99", "small": 700, "name": "Ada"}
    harness.replicate(
        data("INSERT", whole, schema_id="S.T-1", columnMask="1F"),
        data("INSERT", {"id": 2, "name": "Bob"}, schema_id="S.T-1", columnMask="11"),
        data("UPDATE", {"id": 2, "name": "Eve"}, {"id": 2}, schema_id="S.T-1", columnMask="1F"),
    )
    assert harness.landed("S.T", "id", "name") == [[0, 1, "Ada"], [0, 2, "Bob"], [1, 2, "Eve"]]


def test_a_column_that_is_not_excluded_is_still_needed_beside_one_that_is(harness: IngestHarness) -> None:
    harness.put("S.T", schema_of({"id": "int64"}, ["id"]), exclude=["doc"])
    harness.replicate(metadata("S.T", {"id": "INT8", "doc": "NCLOB", "name": "STRING"}))
    with rejected() as rejection:
        harness.replicate(data("INSERT", {"id": 2}, schema_id="S.T-1", columnMask="1"))
    assert [place[::3] for place in rejection.places] == [(Code.INCOMPLETE_INSERT, "name")]


def test_a_column_that_is_excluded_later_lands_null_until_it_is_no_longer(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA)
    whole = {"id": "1", "name": "Ada", "secret": "x"}
    harness.arcion(arcion("t", None, whole))
    assert harness.put("t", exclude=["secret"]).table.schema == SCHEMA
    harness.arcion(arcion("t", whole, whole))
    harness.other.arcion(arcion("t", {"id": "1"}, {"id": "1", "name": "Bob"}))
    harness.put("t", exclude=[])
    harness.arcion(arcion("t", whole, whole))
    assert harness.landed("t", "name", "secret") == [
        [0, "Ada", "x"],
        [1, "Ada", None],
        [1, "Bob", None],
        [1, "Ada", "x"],
    ]
    with rejected(places=[(Code.INCOMPLETE_UPDATE, 0, "/after/secret", "secret")]):
        harness.other.arcion(arcion("t", {"id": "1"}, {"id": "1", "name": "Bob"}))


@pytest.mark.parametrize("with_columns", [True, False])
def test_neither_a_key_nor_a_required_column_can_be_excluded(harness: IngestHarness, with_columns: bool) -> None:
    schema = schema_of({"id": "int64", "name": "string", "must": "string"}, ["id"], ["id", "must"])
    again = schema if with_columns else None
    before = harness.put("t", schema).table
    with rejected(places=[(Code.BAD_OPTION, None, "/options/exclude", None)]):
        harness.put("t", again, exclude=["name", "id"])
    with rejected() as rejection:
        harness.put("t", again, exclude=["must"])
    assert rejection.code in {Code.BAD_OPTION, Code.INCOMPATIBLE_SCHEMA}
    assert harness.table("t") == before


def test_a_new_table_cannot_exclude_its_key_but_a_required_column(harness: IngestHarness) -> None:
    schema = schema_of({"id": "int64", "must": "string"}, ["id"], ["id", "must"])
    with rejected(places=[(Code.BAD_OPTION, None, "/options/exclude", None)]):
        harness.put("t", schema, exclude=["id"])
    assert harness.put("t", schema, exclude=["must"]).table.schema.names == ("id",)


def test_metadata_cannot_make_an_excluded_column_a_key(harness: IngestHarness) -> None:
    harness.put("S.T", schema_of({"id": "int64"}), exclude=["id2"])
    with rejected(places=[(Code.BAD_OPTION, 0, "/message/tableStructure", None)]):
        harness.replicate(metadata("S.T", {"id": "INT8", "id2": "INT8"}, ("id", "id2")))
    assert harness.table("S.T").schema.key_columns == ()
