"""Debezium's change events: rows that land, events that are ignored or rejected, and those that are kept."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from app.domain.model.table_options import TimestampUnit
from app.formats.debezium.values import Tombstones
from app.ingest import DebeziumJson
from mirrorgate.errors import Code
from tests.support.ingest_harness import IngestHarness
from tests.support.postgres import sql
from tests.support.postgres.dead_letters import messages, replay, waiting
from tests.support.rejections import rejected
from tests.support.samples.debezium import event, keyed, with_schema
from tests.support.samples.schemas import schema_of

INSERT, UPDATE, DELETE, UPSERT = 0, 1, 2, 4
SCHEMA = schema_of({"id": "int64", "note": "string"}, ["id"], ["id"])


@pytest.fixture
def orders(harness: IngestHarness) -> IngestHarness:
    harness.put("public.orders", SCHEMA)
    return harness


def landed(harness: IngestHarness) -> list[list[Any]]:
    return harness.landed("public.orders", "id", "note")


def test_each_operation_lands_with_its_marker(orders: IngestHarness) -> None:
    orders.debezium(
        event("r", "public.orders", after={"id": 1, "note": "a"}, snapshot="last"),
        event("c", "public.orders", after={"id": 2, "note": "b"}),
        event("u", "public.orders", {"id": 2, "note": "b"}, {"id": 2, "note": "c"}),
        event("u", "public.orders", None, {"id": 1, "note": None}),
        event("d", "public.orders", {"id": 1, "note": None}),
    )
    assert landed(orders)[:3] == [[INSERT, 1, "a"], [INSERT, 2, "b"], [UPDATE, 2, "c"]]
    assert landed(orders)[3:] == [[UPDATE, 1, None], [DELETE, 1, None]]


def test_empty_images_are_none_and_an_update_of_the_key_moves_the_row(orders: IngestHarness) -> None:
    orders.debezium(
        event("c", "public.orders", {}, {"id": 1, "note": "a"}),
        event("u", "public.orders", {"id": 1, "note": "a"}, {"id": 3, "note": "a"}),
        event("d", "public.orders", {"id": 3, "note": "a"}, {}),
    )
    assert landed(orders) == [[INSERT, 1, "a"], [DELETE, 1, None], [INSERT, 3, "a"], [DELETE, 3, None]]


def test_what_changes_no_row_is_ignored_and_counted(orders: IngestHarness) -> None:
    result = orders.debezium(
        None,
        {"schema": None, "payload": None},
        keyed({"id": 1}, None),
        {"ts_ms": 1767323045000},
        keyed({"serverName": "srv"}, {"ts_ms": 1767323045000}),
        {"status": "BEGIN", "id": "571", "event_count": None, "data_collections": None, "ts_ms": 1},
        {"source": {"server": "srv"}, "databaseName": "shop", "ddl": "DROP TABLE t", "tableChanges": []},
        {"op": "m", "ts_ms": 1, "source": {"table": ""}, "message": {"prefix": "p", "content": "Y29udGVudA=="}},
        event("c", "public.orders", after={"id": 1, "note": "a"}),
    )
    assert (result.ignored, landed(orders)) == (8, [[INSERT, 1, "a"]])


def test_the_tombstone_of_older_versions_of_arcion_is_ignored_and_counted(orders: IngestHarness) -> None:
    result = orders.debezium(
        keyed({"id": 1}, event("c", "public.orders", {}, {"id": 1, "note": "a"})),
        keyed({"id": 1}, event("d", "public.orders", {"id": 1, "note": "a"}, {})),
        keyed({"schema": {"type": "struct", "fields": []}, "payload": {"id": 1}}, "default"),
        "default",
    )
    assert result.ignored == 2
    assert landed(orders) == [[INSERT, 1, "a"], [DELETE, 1, None]]


def test_a_flattened_row_whose_columns_are_key_and_value_keeps_the_text_default(harness: IngestHarness) -> None:
    harness.put("settings", schema_of({"key": "string", "value": "string"}, ["key"], ["key"]))
    harness.debezium({"key": "theme", "value": "default"}, {"key": "default", "value": "default"}, table="settings")
    assert harness.landed("settings", "key", "value") == [[UPSERT, key, "default"] for key in ("theme", "default")]


@pytest.mark.parametrize("has_schema", [False, True])
def test_a_table_without_a_key_takes_new_rows_and_nothing_else(harness: IngestHarness, has_schema: bool) -> None:
    harness.put("public.log", schema_of({"id": "int64", "note": "string"}, []))

    def written(op: str, before: Any = None, after: Any = None) -> Any:
        told = event(op, "public.log", before, after)
        return with_schema(told, {"id": "int64", "note": "string"}) if has_schema else told

    row = {"id": 1, "note": "a"}
    harness.debezium(written("r", after=row), written("c", after=row))
    harness.debezium(written("c", after=row))
    harness.debezium({**row, "__op": "c"}, table="public.log")
    assert harness.landed("public.log", "id", "note") == [[INSERT, 1, "a"]] * 4
    for change in (written("u", None, row), written("u", row, row), written("d", row), {**row, "__deleted": "true"}):
        with rejected(Code.NO_KEY):
            harness.debezium(change, table="public.log")


def test_a_truncate_is_rejected_with_its_place(orders: IngestHarness) -> None:
    with rejected(places=[(Code.TRUNCATE_UNSUPPORTED, 1, "/value/op", None)]):
        orders.debezium(None, keyed(None, {"op": "t", "source": {"schema": "public", "table": "orders"}, "ts_ms": 1}))


def test_a_document_of_mongodb_is_rejected_with_the_transformation_to_use(orders: IngestHarness) -> None:
    with rejected(Code.MALFORMED_MESSAGE) as rejection:
        orders.debezium({"after": '{"_id": 1}', "op": "c", "source": {"connector": "mongodb", "db": "d"}})
    assert "ExtractNewDocumentState" in rejection.detail


def test_a_deleted_row_without_an_image_has_the_key_of_its_record(orders: IngestHarness) -> None:
    orders.debezium(keyed({"schema": None, "payload": {"id": 5}}, event("d", "public.orders")))
    assert landed(orders) == [[DELETE, 5, None]]


def test_flattened_rows_land_with_the_operation_that_they_tell(orders: IngestHarness) -> None:
    told = {"__table": "orders", "__schema": "public", "__source_ts_ms": 1, "__lsn": 5}
    orders.debezium(
        {"id": 1, "note": "a", "__op": "c", **told},
        {"id": 1, "note": "b", "__op": "u", **told},
        {"id": 2, "note": "c", "__deleted": "false", **told},
        {"id": 1, "note": None, "__deleted": "true", "__op": "d", **told},
    )
    assert landed(orders) == [[INSERT, 1, "a"], [UPDATE, 1, "b"], [UPSERT, 2, "c"], [DELETE, 1, None]]


def test_a_tombstone_among_flattened_rows_needs_a_meaning(orders: IngestHarness) -> None:
    body = (keyed({"id": 1}, {"id": 1, "note": "a"}), keyed({"id": 1}, None))
    with rejected(places=[(Code.BAD_REQUEST, 1, "/value", None)]) as rejection:
        orders.debezium(*body, table="public.orders")
    assert "tombstones=delete" in rejection.detail
    orders.debezium(*body, table="public.orders", tombstones=Tombstones.DELETE)
    assert landed(orders) == [[UPSERT, 1, "a"], [DELETE, 1, None]]
    assert orders.debezium(*body, table="public.orders", tombstones=Tombstones.IGNORE).ignored == 1


def test_a_tombstone_alone_needs_a_meaning_where_it_can_be_a_delete(orders: IngestHarness) -> None:
    alone = keyed({"id": 1}, None)
    with rejected(places=[(Code.BAD_REQUEST, 0, "/value", None)]):
        orders.debezium(alone, {"ts_ms": 1}, table="public.orders")
    assert orders.debezium(alone, table="public.orders", tombstones=Tombstones.IGNORE).ignored == 1
    assert orders.debezium(alone).ignored == 1  # it is for no table
    assert orders.debezium(None, table="public.orders").ignored == 1  # no record, so no tombstone
    deleted = event("d", "public.orders", {"id": 1, "note": None})
    assert orders.debezium(keyed({"id": 1}, deleted), alone, table="public.orders").ignored == 1
    orders.debezium(alone, table="public.orders", tombstones=Tombstones.DELETE)
    assert landed(orders) == [[DELETE, 1, None], [DELETE, 1, None]]


@pytest.mark.parametrize("key", [5, "a", None, {}, {"__dbz__physicalTableIdentifier": "srv.orders"}])
def test_a_tombstone_whose_key_has_no_columns_is_never_taken_for_an_ignored_event(
    orders: IngestHarness, key: Any
) -> None:
    row, tombstone = {"id": 1, "note": "a"}, keyed(key, None)
    for body in ([keyed({"id": 1}, row), tombstone], [keyed({"id": 1}, {**row, "__deleted": "false"}), tombstone]):
        with rejected(places=[(Code.MISSING_KEY, 1, "/value", None)]) as rejection:
            orders.debezium(*body, table="public.orders", tombstones=Tombstones.DELETE)
        assert "its key has no columns" in rejection.detail
    for undecided in ([keyed({"id": 1}, row), tombstone], [{"ts_ms": 1}, tombstone]):
        with rejected(places=[(Code.BAD_REQUEST, 1, "/value", None)]):
            orders.debezium(*undecided, table="public.orders")
    deleted = event("d", "public.orders", {"id": 1, "note": None})
    assert orders.debezium(keyed({"id": 1}, deleted), tombstone, table="public.orders").ignored == 1
    assert orders.debezium(tombstone, table="public.orders", tombstones=Tombstones.IGNORE).ignored == 1


def test_a_null_without_a_key_deletes_nothing_and_says_so(orders: IngestHarness) -> None:
    with rejected(places=[(Code.MISSING_KEY, 0, "", None)]):
        orders.debezium(None, table="public.orders", tombstones=Tombstones.DELETE)


def test_keys_of_a_record_that_contradict_the_table_are_rejected_with_both(orders: IngestHarness) -> None:
    record = keyed({"region": 1}, event("c", "public.orders", after={"id": 1, "note": "a"}))
    with rejected(places=[(Code.INCOMPATIBLE_SCHEMA, 0, "", None)]) as rejection:
        orders.debezium(record)
    assert "(region) here and (id) in table public.orders" in rejection.detail
    orders.debezium(record, key_columns=("id",))
    assert landed(orders) == [[INSERT, 1, "a"]]


def test_the_table_comes_from_the_source_then_from_the_request(harness: IngestHarness) -> None:
    harness.put("shop.orders", SCHEMA)
    harness.put("t", SCHEMA)
    of_mysql = event("c", "orders", after={"id": 1, "note": "a"}, schema=None)
    harness.debezium(of_mysql)
    assert harness.landed("shop.orders", "id") == [[INSERT, 1]]
    with rejected(places=[(Code.TABLE_MISMATCH, 0, "", None)]):
        harness.debezium(of_mysql, table="t")
    harness.debezium({**of_mysql, "source": {"db": "other", "table": "orders"}}, table="t")
    assert harness.landed("t", "id") == [[INSERT, 1]]
    with rejected() as rejection:
        harness.debezium({**of_mysql, "source": {"db": "other", "table": "orders"}})
    assert rejection.places[0][:2] == (Code.UNKNOWN_TABLE, 0)
    with rejected(places=[(Code.UNKNOWN_TABLE, 0, "", None)]):
        harness.debezium({"id": 1, "note": "a"})
    with rejected(places=[(Code.BAD_NAME, 0, "", None)]):
        harness.debezium({**of_mysql, "source": {"db": "shop", "table": "a/b"}})


def wrong_schema(field: dict[str, Any]) -> dict[str, Any]:
    return {"schema": {"type": "struct", "fields": [field | {"field": "id"}]}, "payload": {"id": 1}}


@pytest.mark.parametrize(
    ("wrong", "code", "pointer"),
    [
        (event("x", "public.orders", after={"id": 1}), Code.BAD_OP, "/op"),
        (event("c", "public.orders"), Code.MALFORMED_MESSAGE, "/after"),
        (event("c", "public.orders", after=[1]), Code.MALFORMED_MESSAGE, "/after"),
        (7, Code.MALFORMED_MESSAGE, ""),
        ({"specversion": "1.0", "data": {}}, Code.MALFORMED_MESSAGE, ""),
        ({"schema": {"type": "int99"}, "payload": {"id": 1}}, Code.BAD_SCHEMA, "/schema/type"),
        (keyed({}, wrong_schema({"type": "array", "items": 7})), Code.BAD_SCHEMA, "/value/schema/fields/0/items"),
        (wrong_schema({"type": "struct", "fields": {}}), Code.BAD_SCHEMA, "/schema/fields/0/fields"),
        (wrong_schema({"type": "int32", "parameters": [1]}), Code.BAD_SCHEMA, "/schema/fields/0/parameters"),
    ],
)
def test_what_is_no_event_is_rejected_with_its_place(
    orders: IngestHarness, wrong: Any, code: Code, pointer: str
) -> None:
    with rejected(places=[(code, 1, pointer, None)]):
        orders.debezium(None, wrong)


def test_unavailable_values_are_completed_or_rejected_and_never_null(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, partial_updates="complete")
    placeholder = "__debezium_unavailable_value"
    harness.debezium(
        event("c", "t", after={"id": 1, "note": "long"}, schema=None, db=None),
        event("u", "t", after={"id": 1, "note": placeholder}, schema=None, db=None),
        event("u", "t", {"id": 1, "note": "full"}, {"id": 1, "note": "none"}, schema=None, db=None),
        unavailable=("none",),
    )
    assert harness.landed("t", "id", "note") == [[INSERT, 1, "long"], [UPDATE, 1, "long"], [UPDATE, 1, "full"]]
    with rejected(places=[(Code.INCOMPLETE_INSERT, 0, "/after/note", "note")]):
        harness.debezium(event("c", "t", after={"id": 2, "note": placeholder}, schema=None, db=None))


def test_values_keep_their_place_in_rejections_of_records_with_schemas(orders: IngestHarness) -> None:
    columns = {"id": "int64", "note": "string"}
    with rejected(places=[(Code.BAD_VALUE, 0, "/value/payload/after/id", "id")]):
        orders.debezium(
            keyed({"id": 1}, with_schema(event("c", "public.orders", after={"id": "x", "note": ""}), columns))
        )


def test_a_null_line_counts_as_an_element_in_front_of_a_wrong_one(orders: IngestHarness) -> None:
    good = json.dumps(event("c", "public.orders", after={"id": 1, "note": "a"}))
    assert orders.accept(DebeziumJson(f"{good}null{good}".encode())).ignored == 1
    with rejected() as rejection:
        orders.accept(DebeziumJson(f"{good}\nnull\n{{1}}".encode()))
    assert rejection.places[0][:2] == (Code.MALFORMED_JSON, 2)


@pytest.mark.parametrize(
    ("members", "position"),
    [
        ({"snapshot": "last"}, "lsn=24023128 snapshot=last"),
        (
            {"lsn": None, "gtid": "24bc:21", "file": "bin.3", "pos": 154, "row": 0},
            "gtid=24bc:21 file=bin.3 pos=154 row=0",
        ),
        (
            {"lsn": None, "scn": "2122185", "commit_scn": "2122186", "snapshot": True},
            "scn=2122185 commit_scn=2122186 snapshot=true",
        ),
        ({"lsn": None}, None),
    ],
)
def test_the_batch_keeps_the_position_in_the_log(
    orders: IngestHarness, members: dict[str, Any], position: str | None
) -> None:
    orders.debezium(event("c", "public.orders", after={"id": 1, "note": "a"}, **members))
    assert sql.value(orders.engine, "SELECT source_position FROM mirrorgate.staged_blocks") == position


def test_a_flattened_row_with_a_wrong_operation_is_kept_for_its_table(harness: IngestHarness) -> None:
    harness.put("public.orders", SCHEMA, dead_letters="accept")
    wrong = {"id": 1, "note": "a", "__op": "x", "__table": "orders", "__schema": "public"}
    assert harness.debezium(wrong, keep=True).dead_letters == 1


KEPT_SCHEMA = schema_of({"id": "int32", "at": "timestamp", "v": "int16"}, ["id"], ["id"])
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def created(key: int, value: Any, op: str = "c") -> dict[str, Any]:
    return keyed({"id": key}, event(op, "public.t", after={"id": key, "at": 1767323045000, "v": value}))


@pytest.fixture
def keeping(harness: IngestHarness) -> IngestHarness:
    harness.put("public.t", KEPT_SCHEMA, dead_letters="accept")
    return harness


def test_wrong_events_are_kept_as_written_and_the_others_land(keeping: IngestHarness) -> None:
    sent = (created(1, "x"), created(2, 2), created(3, 3, op="x"), created(4, 70_000))
    result = keeping.debezium(*sent, keep=True, timestamps=(("*", TimestampUnit.MILLIS),))
    assert (result.dead_letters, keeping.landed("public.t", "id", "at", "v")) == (3, [[0, 2, AT, 2]])
    assert [json.loads(written) for written in messages(keeping.engine, "public.t")] == [sent[0], sent[2], sent[3]]
    errors = [letter.errors[0]["code"] for letter in waiting(keeping.engine, "public.t")]
    assert errors == [Code.BAD_VALUE, Code.BAD_OP, Code.BAD_VALUE]


def test_a_replay_reads_the_correction_with_the_parameters_of_its_request(keeping: IngestHarness) -> None:
    keeping.debezium(created(1, "x"), keep=True, timestamps=(("*", TimestampUnit.MILLIS),))
    [letter] = waiting(keeping.engine, "public.t")
    with rejected(Code.BAD_VALUE):
        replay(keeping, letter.letter_id, table="public.t")
    replay(keeping, letter.letter_id, json.dumps(created(1, 5)).encode(), table="public.t")
    assert keeping.landed("public.t", "id", "at", "v") == [[0, 1, AT, 5]]


def test_a_rejected_row_does_not_hide_that_a_tombstone_can_be_a_delete(keeping: IngestHarness) -> None:
    wrong, tombstone = {"id": 1, "v": 1, "__op": "x"}, keyed({"id": 2}, None)
    with rejected(places=[(Code.BAD_REQUEST, 1, "/value", None)]):
        keeping.debezium(keyed({"id": 1}, wrong), tombstone, table="public.t", keep=True)
    said = keyed({"id": 1}, {**wrong, "__deleted": "false"})
    for marked in (said, created(1, 1, op="x")):
        result = keeping.debezium(marked, tombstone, table="public.t", keep=True)
        assert (result.dead_letters, result.ignored) == (1, 1)


def test_a_tombstone_that_names_no_row_is_kept_for_its_correction(keeping: IngestHarness) -> None:
    result = keeping.debezium(keyed(5, None), table="public.t", keep=True, tombstones=Tombstones.DELETE)
    assert result.dead_letters == 1
    [letter] = waiting(keeping.engine, "public.t")
    replay(keeping, letter.letter_id, json.dumps(keyed({"id": 5}, None)).encode(), table="public.t")
    assert keeping.landed("public.t", "id") == [[2, 5]]
