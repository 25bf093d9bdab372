"""Option `new_columns=add_as_string`: columns known only from messages become nullable text columns."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from app.domain.model.table import DropAction, DropPlan
from app.formats.arcion.csv import CsvLayout, CsvMode
from mirrorgate.errors import Code
from tests.support.gateway_parts import next_generation
from tests.support.ingest_harness import IngestHarness
from tests.support.rejections import rejected
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
        ("a\tb", Code.BAD_NAME),
        (" ", Code.BAD_NAME),
        ("", Code.BAD_NAME),
        ("ID", Code.BAD_SCHEMA),
        ("Good", Code.BAD_SCHEMA),
        ("x" * 129, Code.BAD_NAME),
        ("e\u0301", Code.BAD_NAME),
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


def test_a_new_column_has_the_type_that_the_options_give_it(harness: IngestHarness) -> None:
    harness.put("t", ID, new_columns="add_as_string", columns={"n": {"type": "int64", "nullable": False}})
    harness.arcion(arcion("t", None, {"id": "1", "n": "7", "s": "7"}))
    assert declared(harness)[1:] == [("n", "int64", True), ("s", "string", True)]
    assert harness.landed("t", "n", "s") == [[0, 7, "7"]]


def test_an_excluded_column_is_not_added(harness: IngestHarness) -> None:
    harness.put("t", ID, new_columns="add_as_string", exclude=["note"])
    harness.arcion(arcion("t", None, {"id": "1", "note": "x"}))
    assert (harness.table("t").schema, len(harness.rows("t"))) == (ID, 1)


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
