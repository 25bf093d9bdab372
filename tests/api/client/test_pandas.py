"""Frames of pandas, and the notebook of the examples, sent in one line.

Skipped without pandas; `make test-real` runs them with it.
"""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

import mirrorgate
from mirrorgate import GatewayClient, RejectedInput
from tests.api.calls import ADMIN_KEY
from tests.api.commands import staged
from tests.support.processes import REPOSITORY

pd = pytest.importorskip("pandas", reason="PyArrow imports pandas everywhere once it is installed")


AT = dt.datetime(2026, 11, 1, 12, 30)
OF_PANDAS = {
    "nullable integer": (pd.array([2**60 + 1, None], dtype="Int64"), "int64", [2**60 + 1, None]),
    "nullable boolean": (pd.array([True, None], dtype="boolean"), "boolean", [True, None]),
    "float with NaN": ([1.5, float("nan")], "float64", [1.5, None]),
    "category": (pd.Categorical(["a", None]), "string", ["a", None]),
    "text with None": (["a", None], "string", ["a", None]),
    "object with NaN": (pd.Series(["a", float("nan")], dtype=object), "string", ["a", None]),
    "decimals": (pd.Series([Decimal("1.25"), None], dtype=object), "decimal(3,2)", [Decimal("1.25"), None]),
    "days": (pd.Series([AT.date(), pd.NaT], dtype=object), "date", [AT.date(), None]),
    "time": (pd.to_datetime(pd.Series([AT, None])), "timestamp", [AT.replace(tzinfo=dt.UTC), None]),
    "time with a zone": (
        pd.to_datetime(pd.Series([AT, None])).dt.tz_localize("Europe/Oslo"),
        "timestamp",
        [AT.replace(hour=11, tzinfo=dt.UTC), None],
    ),
}


@pytest.mark.parametrize(("column", "of_type", "values"), OF_PANDAS.values(), ids=OF_PANDAS)
def test_a_column_of_pandas_lands_with_its_type(
    client: GatewayClient, api_engine: sa.Engine, column: Any, of_type: str, values: list[Any]
) -> None:
    frame = pd.DataFrame({"id": [1, 2], "value": column, "empty": [None, None]})
    frame.index = pd.Index([7, 8])
    mirrorgate.mirror(frame, "t", key="id", client=client)
    columns = client.get("/v1/tables/t/schema")["columns"]
    assert [(column["name"], column["type"]) for column in columns] == [("id", "int64"), ("value", of_type)]
    assert [row[1] for row in staged(api_engine, "t")] == values


def test_a_column_without_a_value_is_sent_once_the_table_has_it(client: GatewayClient, api_engine: sa.Engine) -> None:
    mirrorgate.mirror(pd.DataFrame({"id": [1], "note": [2.5]}), "t", key="id", client=client)
    frame = pd.DataFrame({"id": [2], "note": pd.Series([None], dtype=object), "city": ["Oslo"]})
    mirrorgate.mirror(frame, "t", key="id", client=client)
    types = {column["name"]: column["type"] for column in client.get("/v1/tables/t/schema")["columns"]}
    assert types == {"id": "int64", "note": "float64", "city": "string"}


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"id": pd.Series([AT.date(), AT], dtype=object)}),
        pd.DataFrame({"id": pd.Series([1, "secret"], dtype=object)}),
        pd.DataFrame({"id": pd.arrays.SparseArray([1])}),
        pd.DataFrame([[1, 2]], columns=["id", "id"]),
        pd.Series([1], name="id"),
        pd.DataFrame({"id": [1], "month": pd.period_range("2026-01", periods=1, freq="M")}),
        pd.DataFrame({"id": [1], "month": pd.Categorical(pd.period_range("2026-01", periods=1, freq="M"))}),
    ],
    ids=["day and time", "number and text", "sparse", "columns of one name", "series", "period", "category of periods"],
)
def test_what_arrow_cannot_hold_is_rejected_without_a_value(client: GatewayClient, frame: Any) -> None:
    with pytest.raises(RejectedInput, match="PyArrow cannot read") as raised:
        mirrorgate.mirror(frame, "t", key="id", client=client)
    assert "secret" not in str(raised.value)


def test_the_notebook_of_the_examples_runs_and_has_no_outputs(
    client: GatewayClient, api_address: str, api_engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORGATE_URL", api_address)
    monkeypatch.setenv("MIRRORGATE_API_KEY", ADMIN_KEY)
    notebook = json.loads((REPOSITORY / "examples/dataframes.ipynb").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        exec(compile("".join(cell["source"]), cell["id"], "exec"), names)  # noqa: S102  # code of this repository
    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)
    columns = [column["name"] for column in client.get("/v1/tables/notebook.orders/schema")["columns"]]
    assert columns == ["id", "status", "placed", "method"]
    assert len(staged(api_engine, "notebook.readings")) == 100
    (load, _) = client.get("/v1/tables/notebook.prices/loads")["loads"]
    assert (load["state"], load["rows"], load["deletes"]) == ("completed", 1, 1)
