"""Sources whose names differ only in letter case are separate tables, unless `sources` joins them."""

import json

import pytest

from app.domain.access.rights import Principal, Right
from mirrorgate.errors import Code
from tests.support.ingest_harness import IngestHarness
from tests.support.rejections import rejected
from tests.support.samples.messages import Message, arcion, data, metadata
from tests.support.samples.schemas import schema_of

ID = schema_of({"id": "int64"}, ["id"], ["id"])


def row(table: str, number: int, catalog: str | None = None) -> Message:
    return arcion(table, None, {"id": str(number)}, catalog=catalog)


def dt(table: str, number: int) -> Message:
    return data("INSERT", {"id": number}, table=table)


def test_metadata_of_a_source_in_another_letter_case_is_rejected_and_changes_nothing(harness: IngestHarness) -> None:
    harness.replicate(metadata("CS.Orders", {"id": "INT8", "name": "WSTRING"}))
    before = harness.table("CS.Orders")
    for table in ("CS.orders", "cs.Orders"):
        with rejected(places=[(Code.SOURCE_CASE_MISMATCH, 0, "/message/lineage", None)]) as rejection:
            harness.replicate(metadata(table, {"id": "INT8"}))
        assert "`sources`" in rejection.text
    assert harness.table("CS.Orders") == before


def test_twins_in_one_request_are_rejected_together(harness: IngestHarness) -> None:
    with rejected() as rejection:
        harness.replicate(metadata("CS.Orders", {"id": "INT8"}), metadata("CS.orders", {"id": "INT8"}))
    assert rejection.places[0][:2] == (Code.SOURCE_CASE_MISMATCH, 1)


def test_data_of_a_source_in_another_letter_case_is_rejected_in_both_formats(harness: IngestHarness) -> None:
    """The name of the PUT, letter by letter, is the registered one."""
    harness.put("a.t", ID)
    for process in (harness, harness.other):
        process.arcion(row("a.t", 1))
        process.replicate(dt("a.t", 2))
        for message in (row("A.T", 3), row("a.T", 3)):
            with rejected(places=[(Code.SOURCE_CASE_MISMATCH, 0, "/tableName", None)]):
                process.arcion(message)
        with rejected(places=[(Code.SOURCE_CASE_MISMATCH, 0, "", None)]):
            process.replicate(dt("A.t", 3))
        with rejected(Code.SOURCE_CASE_MISMATCH):
            process.arcion(row("A.T", 3), table="a.t")
    assert len(harness.rows("a.t")) == 4


def test_a_table_may_be_asked_for_in_any_letter_case(harness: IngestHarness) -> None:
    harness.put("a.t", ID)
    harness.arcion(row("elsewhere", 1), table="A.T", override=True)
    harness.replicate(data("INSERT", {"id": 2}), table="A.t")
    harness.arcion(row("a.t", 3), table="A.T")
    assert len(harness.rows("a.t")) == 3


def test_a_source_that_is_named_in_another_letter_case_feeds_the_table(harness: IngestHarness) -> None:
    harness.put("sales.orders", ID, sources=["SALES.ORDERS", "Sales.Orders"])
    harness.arcion(row("SALES.ORDERS", 1), row("Sales.Orders", 2), row("sales.orders", 3))
    assert len(harness.rows("sales.orders")) == 3
    with rejected(Code.SOURCE_CASE_MISMATCH):
        harness.arcion(row("sales.ORDERS", 4))


def test_twins_are_kept_apart_by_a_table_of_its_own_for_one_of_them(harness: IngestHarness) -> None:
    harness.replicate(metadata("CS.Orders", {"id": "INT8"}, schema_id="o1"))
    harness.put("CS.orders_2", ID, sources=["CS.orders"])
    harness.replicate(metadata("CS.orders", {"id": "INT8"}, schema_id="o2"))
    for process in (harness, harness.other):
        process.replicate(data("INSERT", {"id": 1}, schema_id="o1"), data("INSERT", {"id": 2}, schema_id="o2"))
        process.arcion(row("CS.Orders", 1), row("CS.orders", 2))
    assert harness.landed("CS.Orders", "id") == [[0, 1]] * 4
    assert harness.landed("CS.orders_2", "id") == [[0, 2]] * 4


def test_a_name_that_is_a_source_in_one_letter_case_leads_to_a_table_of_its_own_only_in_that_case(
    harness: IngestHarness,
) -> None:
    harness.put("CS.Orders", ID)
    harness.plain_rows("CS.orders", {"id": 1})
    harness.put("CS.orders_2", ID, sources=["CS.orders"])
    for process in (harness, harness.other):
        for number, name in enumerate(("CS.orders", "CS.Orders", "CS.orders"), 2):
            process.plain_rows(name, {"id": number})
    assert harness.landed("CS.Orders", "id") == [[4, 1], [4, 3], [4, 3]]
    assert harness.landed("CS.orders_2", "id") == [[4, 2], [4, 4]] * 2


def test_a_catalog_in_another_letter_case_is_another_catalog(harness: IngestHarness) -> None:
    harness.put("s.t", ID, sources=["Main.s.t"])
    harness.arcion(row("s.t", 1, "first"), row("s.t", 2, "Main"))
    with rejected(Code.TABLE_MISMATCH):
        harness.arcion(row("s.t", 3, "main"))


def test_a_twin_outside_the_callers_tables_is_as_unknown_as_none(harness: IngestHarness) -> None:
    harness.put("hidden", ID, sources=["mine.t"])
    key = Principal("k", frozenset({Right.INGEST, Right.REGISTER}), ("mine.*",))
    for call in (
        lambda: harness.arcion(row("mine.T", 1), key=key),
        lambda: harness.replicate(dt("mine.T", 1), key=key),
    ):
        with rejected(Code.UNKNOWN_TABLE) as rejection:
            call()
        assert "hidden" not in rejection.text


@pytest.mark.parametrize("name", ["/BIC/AZSALES00", "_SYS_BIC", "a.b", "../t"])
def test_a_source_that_no_folder_can_be_named_after_needs_a_table(harness: IngestHarness, name: str) -> None:
    """`sources` takes any name, and `?table=` routes metadata and data."""
    body = metadata("s.x", {"id": "INT8"}, schema_id="one")
    body["message"]["lineage"]["table"] = name
    message = data("INSERT", {"id": 1}, table="s.x")
    message["message"]["table"] = name
    plain = arcion("s.x", None, {"id": "1"})
    plain["tableName"]["name"] = name
    for call in (lambda: harness.replicate(body), lambda: harness.replicate(message), lambda: harness.arcion(plain)):
        with rejected(Code.BAD_NAME):
            call()
    harness.replicate(body, message, table="by.request")
    quoted = json.dumps(name) if "." in name else name
    harness.put("by.option", ID, sources=[f"s.{quoted}"])
    harness.replicate(body, message)
    harness.arcion(plain)
    assert harness.landed("by.request", "id") == [[0, 1]]
    assert harness.landed("by.option", "id") == [[0, 1]] * 2


def test_a_table_asked_for_takes_metadata_of_one_other_source(harness: IngestHarness) -> None:
    harness.replicate(metadata("s.one", {"id": "INT8"}), dt("s.one", 1), table="t")
    with rejected(places=[(Code.TABLE_MISMATCH, 0, "/message/lineage", None)]):
        harness.replicate(metadata("s.two", {"id": "INT8"}), table="t")
    harness.put("t", sources=["s.two"])
    harness.replicate(metadata("s.two", {"id": "INT8"}), dt("s.two", 2), table="t")
    assert harness.landed("t", "id") == [[0, 1], [0, 2]]
