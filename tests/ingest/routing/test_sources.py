"""Option `sources`: other source names that lead to one table, and catalogs that must not mix."""

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


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("old", row("old", 1)),
        ("OLD.Orders", row("OLD.Orders", 1)),
        ('"a.b"./BIC/AZ', row("a.b./BIC/AZ", 1)),
        ("_SYS_BIC.x", row("_SYS_BIC.x", 1)),
        ("old.orders", row("old.orders", 1, "any")),
        ("Main.old.orders", row("old.orders", 1, "Main")),
    ],
)
def test_a_source_leads_to_its_table_by_name_schema_and_catalog(
    harness: IngestHarness, source: str, message: Message
) -> None:
    harness.put("new.orders", ID, sources=[source])
    [receipt] = harness.arcion(message).receipts
    assert receipt.table == "new.orders"
    assert harness.arcion(message, table="new.orders").receipts[0].sequence == 2


def test_a_source_with_a_catalog_is_that_catalogs_table_only(harness: IngestHarness) -> None:
    harness.put("s.t", ID)
    harness.put("other", ID, sources=["c2.s.t"])
    receipts = harness.arcion(row("s.t", 1, "c1"), row("s.t", 2, "c2"), row("s.t", 3)).receipts
    assert [(receipt.table, receipt.changes) for receipt in receipts] == [("s.t", 2), ("other", 1)]


def test_messages_of_several_sources_land_in_the_order_of_the_request(harness: IngestHarness) -> None:
    harness.put("t", ID, sources=["a.t", "b.t"])
    harness.arcion(row("a.t", 1), row("b.t", 2), row("t", 3), row("a.t", 4))
    assert harness.landed("t", "id") == [[0, 1], [0, 2], [0, 3], [0, 4]]


def test_a_second_catalog_is_rejected_within_a_request_and_across_requests(harness: IngestHarness) -> None:
    harness.put("s.t", ID)
    with rejected() as rejection:
        harness.arcion(row("s.t", 1, "c1"), row("s.t", 2, "c2"), row("s.t", 3, "c2"))
    assert [place[:2] for place in rejection.places] == [(Code.TABLE_MISMATCH, 1), (Code.TABLE_MISMATCH, 2)]
    assert harness.table("s.t").arcion_catalog is None
    harness.arcion(row("s.t", 1), row("s.t", 2, "c2"))
    for process in (harness, harness.other):
        with rejected(places=[(Code.TABLE_MISMATCH, 0, "/tableName", None)]):
            process.arcion(row("s.t", 3, "c1"))
    assert len(harness.rows("s.t")) == 2


def test_a_second_catalog_that_is_named_may_feed_the_table(harness: IngestHarness) -> None:
    harness.put("s.t", ID, sources=["c2.s.t"])
    harness.arcion(row("s.t", 1, "c1"), row("s.t", 2, "c2"))
    with rejected(Code.TABLE_MISMATCH):
        harness.arcion(row("s.t", 3, "c3"))


def test_a_request_may_override_the_address_by_a_source_name(harness: IngestHarness) -> None:
    harness.put("t", ID, sources=["old"])
    assert harness.arcion(row("elsewhere", 1, "c"), table="old", override=True).receipts[0].table == "t"


def test_a_table_that_is_asked_for_by_another_name_takes_what_feeds_it_and_nothing_else(harness: IngestHarness) -> None:
    harness.put("t", ID, sources=["old"])
    harness.put("u", ID)
    assert harness.arcion(row("t", 1), row("old", 2), table="old").receipts[0].changes == 2
    with rejected() as rejection:
        harness.arcion(row("t", 1), row("u", 2), row("nowhere", 3), table="old")
    assert [place[:2] for place in rejection.places] == [(Code.TABLE_MISMATCH, 1), (Code.TABLE_MISMATCH, 2)]


@pytest.mark.parametrize(
    ("sources", "place"),
    [(["u"], 0), (["a", "a"], 1), (["taken"], 0), (["c.x.taken"], 0), ([".a.b"], 0), (["a.b.c.d"], 0)],
    ids=["a table", "named twice", "of another", "of another's catalog", "empty", "too many parts"],
)
def test_a_source_that_is_a_table_or_feeds_another_is_rejected(
    harness: IngestHarness, sources: list[str], place: int
) -> None:
    harness.put("u", ID, sources=["taken", "c.x.taken"])
    before = harness.put("t", ID).table
    for table, schema in (("t", None), ("v", ID)):
        with rejected(places=[(Code.BAD_OPTION, None, f"/options/sources/{place}", None)]):
            harness.put(table, schema, sources=sources)
    assert harness.table("t") == before


def test_a_source_cannot_become_a_table_of_its_own(harness: IngestHarness) -> None:
    harness.put("t", ID, sources=["old"])
    with rejected(Code.BAD_NAME) as rejection:
        harness.put("OLD", ID)
    assert "table t" not in rejection.text


def test_every_process_follows_sources_that_are_given_and_taken_away(harness: IngestHarness) -> None:
    harness.put("s.t", ID)
    message = row("s.t", 1, "c2")
    assert harness.arcion(message).receipts[0].table == harness.other.arcion(message).receipts[0].table == "s.t"
    harness.put("other", ID, sources=["c2.s.t", "old"])
    for process in (harness, harness.other):
        assert process.arcion(message).receipts[0].table == "other"
        assert process.arcion(row("old", 2)).receipts[0].table == "other"
    harness.put("other", sources=[])
    for process in (harness, harness.other):
        assert process.arcion(message).receipts[0].table == "s.t"
        with rejected(places=[(Code.UNKNOWN_TABLE, 0, None, None)]):
            process.arcion(row("old", 2))


def test_replicate_metadata_and_data_take_a_source_name_and_forget_it(harness: IngestHarness) -> None:
    harness.put("t", ID, sources=["OLD.T"])
    for process in (harness, harness.other):
        process.replicate(metadata("OLD.T", {"id": "INT8", "name": "STRING"}))
        rows = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
        by_id, by_name = data("INSERT", rows[0], schema_id="OLD.T-1"), data("INSERT", rows[1], table="OLD.T")
        assert [receipt.table for receipt in process.replicate(by_id, by_name).receipts] == ["t"]
        assert process.replicate(by_id, table="OLD.T").receipts[0].table == "t"
    assert harness.table("t").schema.names == ("id", "name")
    harness.put("t", sources=[])
    for process in (harness, harness.other):
        with rejected(Code.UNKNOWN_TABLE):
            process.replicate(data("INSERT", {"id": 3, "name": "c"}, table="OLD.T"))


def test_replicate_data_stays_in_order_however_each_message_tells_its_table(harness: IngestHarness) -> None:
    harness.replicate(metadata("s.T", {"id": "INT8"}))
    by_id, by_name = {"schema_id": "s.T-1"}, {"table": "s.T"}
    told_by = [by_id, by_name, {"table": "s.T"}, by_id, by_id | by_name]
    messages = [data("INSERT", {"id": number}, **told) for number, told in enumerate(told_by)]
    [receipt] = harness.replicate(*messages).receipts
    assert receipt.changes == 5
    assert harness.landed("s.T", "id") == [[0, number] for number in range(5)]


def test_a_replicate_request_for_one_table_rejects_metadata_and_data_of_another(harness: IngestHarness) -> None:
    harness.put("t", ID, sources=["OLD.T"])
    harness.put("u", ID)
    with rejected(places=[(Code.TABLE_MISMATCH, 1, "/message/lineage", None)]):
        harness.replicate({"message": None}, metadata("u", {"id": "INT8"}), table="OLD.T")
    with rejected(places=[(Code.TABLE_MISMATCH, 0, "", None)]):
        harness.replicate(data("INSERT", {"id": 1}, table="u"), table="OLD.T")


def test_a_source_name_opens_no_table_outside_the_callers_patterns_nor_tells_its_name(harness: IngestHarness) -> None:
    harness.put("hidden", ID, sources=["mine.t"])
    harness.put("mine.other", ID)
    key = Principal("k", frozenset({Right.INGEST, Right.REGISTER}), ("mine.*",))
    message = data("INSERT", {"id": 1}, table="mine.t")
    calls = [
        lambda: harness.arcion(row("mine.t", 1), key=key),
        lambda: harness.arcion(row("mine.other", 1), key=key, table="mine.t"),
        lambda: harness.replicate(message, key=key),
        lambda: harness.replicate(metadata("mine.t", {"id": "INT8"}), key=key),
        lambda: harness.replicate(metadata("mine.other", {"id": "INT8"}), key=key, table="mine.t"),
    ]
    codes = []
    for call in calls:
        with rejected() as rejection:
            call()
        assert "hidden" not in rejection.text
        codes.append(rejection.code)
    unknown, mismatch = Code.UNKNOWN_TABLE, Code.TABLE_MISMATCH
    assert codes == [unknown, mismatch, unknown, unknown, mismatch]
    assert harness.rows("hidden") == []
