"""`mirrorgate.mirror` with the real gateway: any DataFrame lands once, and a full load deletes the other rows."""

import datetime as dt
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
import sqlalchemy as sa
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

import mirrorgate
from mirrorgate import GatewayClient, RejectedByGateway
from mirrorgate.arrow_rows import PIECE_ROWS
from mirrorgate.dataframes import _ROWS_AT_ONCE
from mirrorgate.errors import Code, Misconfigured, RejectedInput, TemporarilyUnavailable
from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import keys, staged
from tests.support.http.faulty_proxy import Fault, faulty_proxy
from tests.support.rejections import rejected

ROWS = [{"id": number, "name": f"n{number}", "total": Decimal("1.25")} for number in range(5)]


@pytest.mark.parametrize(
    "of_rows",
    [
        pa.Table.from_pylist,
        lambda rows: pa.Table.from_pylist(rows).to_reader(),
        pl.DataFrame,
        lambda rows: duckdb.connect().from_arrow(pa.Table.from_pylist(rows)),
        iter,
        list,
    ],
    ids=["pyarrow", "reader", "polars", "duckdb", "generator", "dicts"],
)
def test_a_table_of_any_library_is_registered_and_sent_in_one_line(
    client: GatewayClient, api_engine: sa.Engine, of_rows: Callable[[Any], Any]
) -> None:
    receipts = mirrorgate.mirror(of_rows(ROWS), "t", key="id", client=client)
    assert [(receipt.table, receipt.changes) for receipt in receipts] == [("t", 5)]
    assert keys(api_engine) == [0, 1, 2, 3, 4]
    types = {column["name"]: column["type"] for column in client.get("/v1/tables/t/schema")["columns"]}
    assert (types["id"], types["name"]) == ("int64", "string")
    assert types["total"].startswith("decimal(")


AT = dt.datetime(2026, 11, 1, 12, 30)


class SparkFrame:
    """A DataFrame as Spark 3 has it: rows in Python, and no way to Arrow."""

    def __init__(self, schema: StructType, rows: list[Row]) -> None:
        self.schema = schema
        self._rows = rows

    def toLocalIterator(self) -> Iterator[Row]:  # noqa: N802  # Spark's name
        return iter(self._rows)


def test_a_frame_of_spark_3_is_sent_by_its_schema(
    client: GatewayClient, api_engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirrorgate.dataframes._ROWS_AT_ONCE", 1)
    nested = StructType([StructField("at", TimestampType())])
    schema = StructType([
        StructField("id", LongType()), StructField("at", TimestampType()), StructField("plain", TimestampNTZType()),
        StructField("deep", ArrayType(nested)), StructField("named", MapType(StringType(), LongType())),
    ])  # fmt: skip
    here = AT.replace(tzinfo=dt.UTC).astimezone().replace(tzinfo=None)
    rows = [Row(1, here, AT, [Row(at=here)], {"a": 1}), Row(2**60 + 1, None, None, None, None)]
    mirrorgate.mirror(SparkFrame(schema, rows), "t", key="id", client=client)
    moment = AT.replace(tzinfo=dt.UTC)
    first, second = staged(api_engine, "t")
    assert first[:3] == (1, moment, moment)
    assert '"at":"2026-11-01T12:30:00' in first[3].replace(" 12", "T12")
    assert first[4] == '{"a":1}'
    assert second == (2**60 + 1, None, None, None, None)


def test_categories_and_views_are_sent_as_their_values(client: GatewayClient, api_engine: sa.Engine) -> None:
    frame = pl.DataFrame({"id": [1, 2], "kind": ["a", "b"]}, schema={"id": pl.Int64, "kind": pl.Categorical})
    mirrorgate.mirror(frame, "t", key="id", client=client)
    assert [row[1] for row in staged(api_engine, "t")] == ["a", "b"]


def test_columns_that_a_table_lacks_are_added(client: GatewayClient) -> None:
    mirrorgate.mirror(ROWS, "t", key="id", client=client)
    mirrorgate.mirror([{**ROWS[0], "day": dt.date(2026, 1, 1)}], "t", key="id", client=client)
    assert [column["name"] for column in client.get("/v1/tables/t/schema")["columns"]] == ["id", "name", "total", "day"]


def test_more_rows_than_a_request_may_have_are_sent_in_pieces(client: GatewayClient) -> None:
    rows = pa.table({"id": pa.array(range(2 * PIECE_ROWS + 1))})
    receipts = mirrorgate.mirror(rows, "t", key="id", client=client)
    assert len(receipts) > 3, "this gateway takes bodies of 100 kB only"
    assert sum(receipt.changes for receipt in receipts) == len(rows)


def test_an_interrupted_run_is_repeated_without_sending_what_is_durable(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirrorgate.dataframes.PIECE_ROWS", 1_000)
    rows = pa.table({"id": pa.array(range(20_000))})
    gateway.register("t", {"id": "int64"}, ["id"]).raise_for_status()
    with faulty_proxy(gateway.address) as proxy, GatewayClient(proxy.url, ADMIN_KEY) as client:
        proxy.faults = [Fault.NONE, Fault.NONE, Fault.LOST, *[Fault.BUSY] * 50]
        with pytest.raises((RejectedByGateway, TemporarilyUnavailable)):
            mirrorgate.mirror(rows, "t", key="id", resume="r", client=client, give_up_after=0)
    with GatewayClient(gateway.address, ADMIN_KEY) as client:
        again = mirrorgate.mirror(rows, "t", key="id", resume="r", client=client)
        assert sum(receipt.changes for receipt in again) == 17_000
        assert mirrorgate.mirror(rows, "t", key="id", resume="r", client=client) == []
    assert keys(gateway.engine) == [*range(20_000)]


def test_runs_into_two_tables_never_share_a_name(gateway: Gateway) -> None:
    with GatewayClient(gateway.address, ADMIN_KEY) as client:
        for table, resume in (("a b", "c"), ("a", "b c")):
            assert len(mirrorgate.mirror(ROWS, table, key="id", resume=resume, client=client)) == 1


def test_an_interrupted_full_load_continues_with_rows_that_are_cut_in_other_places(gateway: Gateway) -> None:
    whole = pa.Table.from_pylist(ROWS)
    with GatewayClient(gateway.address, ADMIN_KEY) as client:
        mirrorgate.mirror([{**ROWS[0], "id": 9}], "t", key="id", full=True, client=client)
    with faulty_proxy(gateway.address) as proxy, GatewayClient(proxy.url, ADMIN_KEY) as client:
        proxy.faults = [Fault.NONE] * 3 + [Fault.BUSY] * 50  # begin and two pieces
        parts = pa.concat_tables([whole.slice(0, 3), whole.slice(3, 1), whole.slice(4)])
        with pytest.raises((RejectedByGateway, TemporarilyUnavailable)):
            mirrorgate.mirror(parts, "t", key="id", full=True, resume="r", client=client, give_up_after=0)
    with GatewayClient(gateway.address, ADMIN_KEY) as client:
        parts = pa.concat_tables([whole.slice(0, 4), whole.slice(4)])
        mirrorgate.mirror(parts, "t", key="id", full=True, resume="r", client=client)
        (load, *_) = client.get("/v1/tables/t/loads")["loads"]
    assert (load["state"], load["deletes"]) == ("completed", 1)


def test_a_completed_full_load_is_repeated_without_sending_anything(
    client: GatewayClient, api_engine: sa.Engine
) -> None:
    assert mirrorgate.mirror(ROWS, "t", key="id", full=True, resume="r", client=client)
    client.post_changes("rows", b'{"id": 9, "name": "n", "total": 1}', table="t")
    assert mirrorgate.mirror(ROWS, "t", key="id", full=True, resume="r", client=client) == []
    assert keys(api_engine) == [0, 1, 2, 3, 4, 9], "what was sent since stays"
    (load,) = client.get("/v1/tables/t/loads")["loads"]
    assert load["state"] == "completed"


def test_rejected_rows_abort_a_full_load_without_deletes_and_it_is_not_taken_for_a_completed_one(
    client: GatewayClient,
) -> None:
    mirrorgate.mirror(ROWS, "t", key="id", full=True, client=client)
    wrong = [{"id": None, "name": "x", "total": None}]
    for resume in (None, "r"):
        with pytest.raises(RejectedByGateway) as raised:
            mirrorgate.mirror(wrong, "t", key="id", full=True, resume=resume, client=client)
        assert raised.value.errors
        (load, *_) = client.get("/v1/tables/t/loads")["loads"]
        assert (load["state"], load["deletes"]) == ("aborted", 0)
    with pytest.raises(RejectedByGateway) as raised:
        mirrorgate.mirror(ROWS, "t", key="id", full=True, resume="r", client=client)
    assert raised.value.code is Code.LOAD_ENDED


@pytest.mark.parametrize(
    ("resume", "state"), [(None, "aborted"), ("r", "open")], ids=["nothing can continue it", "its name continues it"]
)
def test_a_full_load_whose_source_fails_stays_open_only_under_a_name(
    client: GatewayClient, resume: str | None, state: str
) -> None:
    def failing() -> Iterator[dict[str, Any]]:
        yield from ROWS * (_ROWS_AT_ONCE // len(ROWS))
        raise TimeoutError

    mirrorgate.mirror(ROWS, "t", key="id", full=True, client=client)
    with pytest.raises(TimeoutError):
        mirrorgate.mirror(failing(), "t", key="id", full=True, resume=resume, client=client)
    (load, *_) = client.get("/v1/tables/t/loads")["loads"]
    assert (load["state"], load["deletes"]) == (state, 0)


def test_a_full_load_without_rows_and_columns_deletes_nothing(client: GatewayClient, api_engine: sa.Engine) -> None:
    mirrorgate.mirror(ROWS, "t", key="id", full=True, client=client)
    for table, full in (("t", True), ("new", False)):
        with rejected(Code.EMPTY_REQUEST):
            mirrorgate.mirror(iter(()), table, key="id", full=full, client=client)
    mirrorgate.mirror(pl.DataFrame(ROWS).head(0), "t", key="id", full=True, client=client)
    (load, *_) = client.get("/v1/tables/t/loads")["loads"]
    assert (load["state"], load["deletes"]) == ("completed", 5), "a frame with columns says that there are no rows"


def test_the_columns_of_mappings_are_all_their_keys(client: GatewayClient) -> None:
    mirrorgate.mirror([{"id": 1}, {"id": 2, "city": "Oslo"}], "t", key="id", client=client)
    assert [column["name"] for column in client.get("/v1/tables/t/schema")["columns"]] == ["id", "city"]


@pytest.mark.parametrize(
    ("first", "later", "code"),
    [
        ({"v": 1}, {"v": 1.5}, Code.BAD_VALUE),
        ({"v": "1"}, {"v": 2}, Code.BAD_VALUE),
        ({"v": None}, {"v": 2}, Code.BAD_VALUE),
        ({"v": {"a": 1}}, {"v": {"b": 1}}, Code.BAD_VALUE),
        ({"v": dt.date(2026, 1, 1)}, {"v": dt.datetime(2026, 1, 1, 5)}, Code.BAD_VALUE),
        ({"v": 1}, {"v": 1, "more": 1}, Code.UNKNOWN_COLUMN),
        ({"v": 1}, {5: 1}, Code.BAD_REQUEST),
        ({"v": 1.5}, {"v": 1}, None),
        ({"v": [1.5]}, {"v": [1]}, None),
        ({"v": Decimal("1.25")}, {"v": Decimal("0.5")}, None),
        ({"v": {"a": 1}}, {}, None),
    ],
)
def test_what_the_columns_of_the_first_mappings_cannot_hold_is_rejected_and_never_changed(
    client: GatewayClient, first: Mapping[str, Any], later: Mapping[Any, Any], code: Code | None
) -> None:
    rows = [*({"id": number, **first} for number in range(_ROWS_AT_ONCE)), {"id": _ROWS_AT_ONCE, **later}]
    with nullcontext() if code is None else rejected(code):
        mirrorgate.mirror(rows, "t", key="id", client=client)


def test_a_rejected_row_is_named_by_its_number_in_the_data(client: GatewayClient) -> None:
    with pytest.raises(RejectedByGateway) as raised:
        mirrorgate.mirror(pa.table({"id": [*range(PIECE_ROWS), None]}), "t", key="id", client=client)
    assert [problem["index"] for problem in raised.value.errors] == [PIECE_ROWS]


@pytest.mark.parametrize("name", ["2026-11-01", "Läufe des 1. November"])
def test_a_name_of_a_run_is_one_of_its_table(client: GatewayClient, api_engine: sa.Engine, name: str) -> None:
    for table in ("t", "u", "t", "u"):
        mirrorgate.mirror(ROWS, table, key="id", resume=name, client=client)
    assert (keys(api_engine, "t"), keys(api_engine, "u")) == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])


@pytest.mark.parametrize("data", [[{"id": None}], [{"id": None, "name": "n"}]])
def test_a_key_column_without_a_value_registers_no_table(client: GatewayClient, data: Any) -> None:
    with pytest.raises(RejectedInput, match="null_key: key column id has no value"):
        mirrorgate.mirror(data, "t", key="id", client=client)
    assert client.get("/v1/tables")["tables"] == []


@pytest.mark.parametrize("data", [3, "rows", {"id": 1}])
def test_what_has_no_rows_is_rejected_before_a_request(client: GatewayClient, data: Any) -> None:
    with pytest.raises(RejectedInput, match="neither a DataFrame nor an iterable"):
        mirrorgate.mirror(data, "t", client=client)


@pytest.mark.parametrize(
    ("data", "options", "code"),
    [
        ([1], {}, Code.BAD_REQUEST),
        ([{"id": 1}, {"id": "1"}], {}, Code.BAD_VALUE),
        ([{"id": dt.date(2026, 1, 1)}, {"id": AT}], {}, Code.BAD_VALUE),
        ([{"id": 1, "v": [{"at": dt.date(2026, 1, 1)}, {"at": AT}]}], {}, Code.BAD_VALUE),
        ([{"id": AT}, {"id": 1}], {}, Code.BAD_VALUE),
        (pl.DataFrame({"id": pl.Series([1], dtype=pl.Int128)}), {}, Code.BAD_TYPE),
        (pl.DataFrame({"id": pl.Series([1], dtype=pl.Object)}), {}, Code.BAD_TYPE),
        ([{"id": 1}], {"wait": "soon"}, Code.BAD_REQUEST),
        ([{"id": 1}], {"resume": ""}, Code.BAD_REQUEST),
    ],
    ids=["mapping", "types", "time after day", "nested time", "number", "no Arrow type", "objects", "wait", "resume"],
)
def test_what_cannot_be_sent_is_rejected_at_once_and_nothing_is_staged(
    client: GatewayClient, api_engine: sa.Engine, data: Any, options: Any, code: Code
) -> None:
    mirrorgate.mirror(pl.DataFrame({"id": [1]}).head(0), "t", key="id", client=client)
    with rejected(code):
        mirrorgate.mirror(data, "t", key="id", client=client, **options)
    assert keys(api_engine) == []


def test_without_pyarrow_the_extra_is_named(client: GatewayClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Misconfigured) as raised:
        mirrorgate.mirror(ROWS, "t", client=client)
    assert "mirrorgate[dataframes]" in raised.value.remedy
