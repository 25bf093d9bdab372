"""Audit columns say of each row what the gateway knows of its change, whatever the format."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.domain.model.names import TableName
from app.formats.arcion.csv import CsvLayout, CsvMode
from app.formats.rows.messages import RowsLayout
from app.ingest import RowOperation, RowsCsv, RowsJson
from mirrorgate.errors import Code
from tests.support.ingest_harness import IngestHarness
from tests.support.rejections import rejected
from tests.support.samples.debezium import event
from tests.support.samples.messages import arcion, data, metadata
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])
ADA, BOB = {"id": 1, "name": "Ada"}, {"id": 1, "name": "Bob"}
AUDIT = {
    "operation": "_op",
    "source_timestamp": "_source_ts",
    "source_position": "_position",
    "accepted_at": "_accepted_at",
    "row_order": "_order",
}
TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def audited(harness: IngestHarness, name: str) -> list[list[Any]]:
    """Return the marker, operation, source time and position of each staged row."""
    return harness.landed(name, "_op", "_source_ts", "_position")


def texts(row: dict[str, Any] | None) -> dict[str, str] | None:
    return row and {name: str(value) for name, value in row.items()}


def test_audit_columns_have_the_operation_the_time_and_the_position_of_each_format(harness: IngestHarness) -> None:
    cursor = {"log": "bin.1", "timestamp": 1767323045000}
    position = '{"log":"bin.1","timestamp":1767323045000}'
    for name in ("a", "c", "r", "d", "p"):
        harness.put(name, SCHEMA, audit_columns=AUDIT)
    harness.arcion(arcion("a", None, texts(ADA), cursor=cursor), arcion("a", texts(ADA), None))
    record = f'1,NULL,1,Ada,NULL,1,I,"{position.replace(chr(34), chr(34) * 2)}",{{}}\n'
    harness.csv(record, "c", CsvLayout(CsvMode.REALTIME, ("id", "name")))
    timed = {"sequence": 7, "timestamp": "2026-01-02T03:04:05.000000"}
    harness.replicate(data("INSERT", ADA, **timed), data("UPDATE", BOB, ADA), table="r")
    harness.debezium(event("r", "d", None, ADA), event("d", "d", ADA), table="d")
    harness.plain_rows("p", ADA, {**BOB, "__op__": "delete"})
    assert audited(harness, "a") == [[0, "insert", TIME, position], [2, "delete", None, None]]
    assert audited(harness, "c") == [[0, "insert", TIME, position]]
    assert audited(harness, "r") == [[0, "insert", TIME, f"{7:035d}"], [1, "update", None, None]]
    assert audited(harness, "d") == [[0, "snapshot", TIME, "lsn=24023128"], [2, "delete", TIME, "lsn=24023128"]]
    assert audited(harness, "p") == [[4, "upsert", None, None], [2, "delete", None, None]]


def test_the_order_grows_and_the_time_is_that_of_acceptance(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, audit_columns=AUDIT)
    before = datetime.now(UTC)
    for _ in range(2):
        harness.arcion(arcion("t", None, texts(ADA)), arcion("t", texts(ADA), texts(BOB)))
    rows = harness.rows("t")
    assert [row["_order"] for row in rows] == [2**32, 2**32 + 1, 2**33, 2**33 + 1]
    times = [row["_accepted_at"] for row in rows]
    assert before <= times[0] == times[1] <= times[2] == times[3] <= datetime.now(UTC)


def test_audit_columns_can_be_added_and_taken_away(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA)
    harness.arcion(arcion("t", None, texts(ADA)))
    first = harness.put("t", audit_columns={"operation": "_op"}).table
    harness.arcion(arcion("t", texts(ADA), texts(BOB)))
    harness.put("t", audit_columns={})
    harness.arcion(arcion("t", texts(BOB), texts(ADA)))
    assert harness.landed("t", "name", "_op") == [[0, "Ada", None], [1, "Bob", "update"], [1, "Ada", None]]
    assert (first.schema_version, harness.table("t").schema_version) == (2, 2)


def test_sources_neither_see_nor_drop_audit_columns(harness: IngestHarness) -> None:
    harness.replicate(metadata("S.T", {"id": "INT8", "name": "STRING"}))
    harness.put("S.T", audit_columns=AUDIT)
    wider = {"id": "INT8", "name": "STRING", "city": "STRING"}
    harness.replicate(metadata("S.T", wider, version=2), data("INSERT", ADA | {"city": "Rome"}, schema_id="S.T-2"))
    table = harness.table("S.T")
    assert (table.schema.names, table.left_columns) == (("id", "name", "city"), frozenset())
    assert harness.landed("S.T", "city", "_op") == [[0, "Rome", "insert"]]
    with rejected(Code.UNKNOWN_COLUMN):
        harness.plain_rows("S.T", ADA | {"city": "Rome", "_op": "insert", "_position": "1"})
    with rejected(Code.BAD_OPTION):
        harness.put("S.T", schema_of({"id": "int64", "_position": "string"}, ["id"], ["id"]))


def test_a_partial_update_is_completed_beside_audit_columns(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, audit_columns={"operation": "_op"}, partial_updates="complete")
    harness.arcion(arcion("t", None, texts(ADA)))
    harness.replicate(data("UPDATE", {"id": 1}), data("INSERT", BOB), table="t")
    assert harness.landed("t", "name", "_op") == [[0, "Ada", "insert"], [1, "Ada", "update"], [4, "Bob", "insert"]]


def test_a_history_has_an_inserted_row_for_every_change(harness: IngestHarness) -> None:
    audit = {"operation": "_op", "deleted": "_deleted", "row_order": "_order"}
    harness.put("t", SCHEMA, history="append_only", audit_columns=audit)
    harness.arcion(arcion("t", None, texts(ADA)), arcion("t", texts(ADA), texts(BOB)), arcion("t", texts(BOB), None))
    assert harness.landed("t", "id", "name", "_op", "_deleted") == [
        [0, 1, "Ada", "insert", False],
        [0, 1, "Bob", "update", False],
        [0, 1, None, "delete", True],
    ]


def test_a_dry_run_shows_the_rows_of_the_files(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, history="append_only", audit_columns={"operation": "_op"})
    reader = RowsJson(b'{"id": 1, "name": "Ada"}', TableName.parse("t"), RowOperation.INSERT)
    [table] = harness.dry_run(reader).tables
    assert table.rows == [ADA | {"_op": "insert"}]


@pytest.mark.parametrize("mode", ["json", "csv"])
def test_rows_with_operations_land_alike(harness: IngestHarness, mode: str) -> None:
    harness.put("t", SCHEMA, audit_columns={"operation": "_op"})
    name, operation = TableName.parse("t"), RowOperation.INSERT
    if mode == "csv":
        harness.accept(RowsCsv(b"id,name\n1,Ada\n", name, RowsLayout(operation)))
    else:
        harness.accept(RowsJson(b'[{"id": 1, "name": "Ada"}]', name, operation))
    assert harness.landed("t", "id", "name", "_op") == [[0, 1, "Ada", "insert"]]


def test_transaction_id_gathers_all_changes_of_a_transaction(harness: IngestHarness) -> None:
    """replicate-19: `transactionId`: "Use this field to gather all changes of a specific transaction"."""
    for name in "adrp":
        harness.put(name, SCHEMA, audit_columns={"transaction_id": "_tx", "transaction_order": "_tx_order"})
    facts = {"transactionId": "0A0B", "transactionLastEvent": True}
    harness.replicate(*(data("INSERT", ADA, transactionEventCounter=n, **facts) for n in (1, 2)), table="r")
    harness.replicate(data("INSERT", ADA, transactionId=7, transactionEventCounter="3"), data("INSERT", ADA), table="r")
    told = {"id": "571:53195832", "total_order": 2, "data_collection_order": 1}
    harness.debezium(event("c", "d", None, ADA), event("c", "d", None, BOB) | {"transaction": told}, table="d")
    flattened = {**BOB, "__op": "c", "__source_txId": 9}
    harness.debezium(flattened, table="d")
    harness.arcion(arcion("a", None, texts(ADA)))
    harness.plain_rows("p", ADA)
    found = {name: [row[1:] for row in harness.landed(name, "_tx", "_tx_order")] for name in "adrp"}
    assert found.pop("r") == [["0A0B", 1], ["0A0B", 2], ["7", 3], [None, None]]
    assert found.pop("d") == [["571", None], ["571:53195832", 2], ["9", None]]
    assert found == {"a": [[None, None]], "p": [[None, None]]}


def test_transactions_are_the_same_on_both_paths(harness: IngestHarness) -> None:
    harness.put("d", SCHEMA, audit_columns={"transaction_id": "_tx", "transaction_order": "_tx_order"})
    told = {"id": "571:53195832", "total_order": 2, "data_collection_order": 1}
    one = event("c", "d", None, ADA) | {"transaction": told}
    harness.debezium(one, table="d")
    harness.debezium(one, {"before": None, "after": None, "op": "m", "source": {}}, table="d")
    first, second = harness.landed("d", "_tx", "_tx_order")
    assert first == second
