"""tables.json is read in the documented form, in that of the REST API, and with unknown content."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.fabric import FabricFault, MirroredTables, TableMirroring, parse_tables, stored_text
from app.domain.model.names import TableName

AT = datetime(2026, 10, 8, 5, 7, 11, 66336, UTC)


def parsed(*entries: dict[str, Any]) -> list[TableMirroring]:
    return parse_tables(json.dumps({"tables": entries}).encode())


def test_the_documented_keys_are_read() -> None:
    entry = {
        "sourceSchemaName": "sales",
        "sourceTableName": "orders",
        "status": "Failed",
        "errorCode": "SchemaMismatch",
        "errorMessage": "column x",
        "processedRowCount": 6,
        "processedByte": 1247,
        "lastSyncTimeUtc": "2026-10-08T05:07:11.0663362Z",
        "somethingNew": {"a": [1]},
    }
    [found] = parsed(entry)
    assert found == TableMirroring(
        "sales", "orders", "Failed", 6, 1247, AT, FabricFault("SchemaMismatch", "column x", "unknown")
    )
    assert (found.has_failed, str(found.error)) == (True, "SchemaMismatch: column x")


def test_the_keys_of_the_rest_api_are_read_as_well() -> None:
    metrics = {"processedBytes": 1247, "processedRows": 6, "lastSyncDateTime": "2026-10-08T05:07:11.066336"}
    entry = {"sourceSchemaName": "dbo", "sourceTableName": "t", "status": "Replicating", "metrics": metrics}
    content = {"continuationToken": None, "data": [entry]}
    assert parse_tables(b"\xef\xbb\xbf" + json.dumps(content).encode()) == [
        TableMirroring("dbo", "t", "Replicating", 6, 1247, AT)
    ]


def test_what_is_missing_or_odd_is_not_said() -> None:
    odd = {
        "sourceSchemaName": None,
        "sourceTableName": "t",
        "status": ["x"],
        "processedRowCount": -1,
        "processedByte": True,
        "lastSyncTimeUtc": "yesterday",
        "error": {"code": 7, "message": "a\0b"},
    }
    assert parsed(odd, {"sourceTableName": ""}, {}) == [
        TableMirroring("", "t", error=FabricFault("7", "ab", "unknown"))
    ]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"{}", b"7", b'{"tables": {}}', b"null"])
def test_what_holds_no_list_is_malformed(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_tables(content)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner)))
def test_no_entry_of_a_list_is_fatal(value: Any) -> None:
    names = ("sourceTableName", "status", "processedRowCount", "lastSyncTimeUtc", "metrics", "error", "errorCode")
    for table in parsed(*({"sourceTableName": "t", name: value} for name in names)):
        assert table.processed_rows is None or 0 <= table.processed_rows < 2**63


def test_a_table_is_found_by_schema_and_name_in_any_letter_case() -> None:
    listed = [TableMirroring("sales", "orders"), TableMirroring("", "orders", processed_rows=1)]
    assert MirroredTables(listed).find(TableName.parse("SALES.Orders")) == listed[0]
    assert MirroredTables(listed).find(TableName.parse("orders")) == listed[1]
    assert MirroredTables(listed).find(TableName.parse("other.orders")) is None


def test_a_table_without_a_schema_may_be_shown_under_fabrics_default_one() -> None:
    listed = [TableMirroring("dbo", "t", processed_rows=1)]
    assert MirroredTables(listed).find(TableName.parse("t")) == listed[0]
    assert MirroredTables([*listed, TableMirroring("", "t")]).find(TableName.parse("t")) == TableMirroring("", "t")


def test_of_two_lifetimes_the_one_that_synced_last_counts() -> None:
    old, new = TableMirroring("", "t", "Stopped"), TableMirroring("", "t", "Replicating", last_sync=AT)
    assert MirroredTables([new, old]).find(TableName.parse("t")) == new


@pytest.mark.parametrize(
    ("value", "count"), [("12", 12), ("9" * 20, None), (2**63 - 1, 2**63 - 1), (2**63, None), ("-1", None)]
)
def test_a_count_is_a_number_or_its_digits_that_postgres_can_store(value: object, count: int | None) -> None:
    assert parsed({"sourceTableName": "t", "processedRowCount": value})[0].processed_rows == count


def test_a_wrong_count_under_one_name_does_not_hide_the_right_one() -> None:
    [found] = parsed({"sourceTableName": "t", "processedRowCount": "many", "processedRows": 3, "processedByte": 0})
    assert (found.processed_rows, found.processed_bytes) == (3, 0)


@pytest.mark.parametrize(
    "text", ["2026-10-08T07:07:11.066336+02:00", "2026-10-08T05:07:11.066336", "2026-10-08 05:07:11.066336Z"]
)
def test_a_time_is_read_in_utc(text: str) -> None:
    assert parsed({"sourceTableName": "t", "lastSyncTimeUtc": "soon", "lastSyncTime": text})[0].last_sync == AT


@pytest.mark.usefixtures("in_tokyo")
def test_a_time_without_an_offset_is_in_utc_wherever_the_gateway_runs() -> None:
    [found] = parsed({"sourceTableName": "t", "lastSyncTime": "2026-10-08T05:07:11.066336"})
    assert (found.last_sync, found.last_sync and found.last_sync.tzinfo) == (AT, UTC)


def test_an_error_can_be_inside_or_beside_the_entry() -> None:
    inside = {"sourceTableName": "t", "error": {"errorCode": "A", "errorMessage": "b"}}
    beside = {"sourceTableName": "t", "errorCode": "A", "errorMessage": "b"}
    assert [str(table.error) for table in parsed(inside, beside)] == ["A: b", "A: b"]
    assert str(parsed({"sourceTableName": "t", "errorMessage": "b"})[0].error) == "b"


def test_a_stored_text_is_short_and_without_what_postgres_rejects() -> None:
    assert stored_text("x" * 1_001) == "x" * 1_000
    assert stored_text("a\0b\udc80") == "ab?"
    assert [stored_text(value) for value in ("", "\0", True, None, 1.5, [])] == [None] * 6
    assert stored_text(0) == "0"


def test_other_keys_of_an_error_and_its_kind_are_read() -> None:
    [found] = parsed({"sourceTableName": "t", "code": "A", "message": "b", "errorType": "UserError"})
    assert found.error == FabricFault("A", "b", "user")
    assert str(parsed({"sourceTableName": "t", "errorCode": "A"})[0].error) == "A"
    assert parsed({"sourceTableName": "t", "errorType": "UserError"})[0].error is None


def test_a_list_alone_is_read_as_well() -> None:
    assert parse_tables(b'[{"sourceTableName": "t"}, 7]') == [TableMirroring("", "t")]
    assert parse_tables(b'{"value": [{"sourceTableName": "t"}]}') == [TableMirroring("", "t")]
