"""Arcion requests over HTTP: CSV and its parameters, override, and the metric of wrong hashes."""

import asyncio
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.api import application
from app.observability.api_metrics import HASH_MISMATCHES
from app.settings import Settings

KEY = "mg_0000000000000001_" + "a-secret-only-for-tests-of-arcion"
TABLE = {
    "key_columns": ["id"],
    "columns": [{"name": "id", "type": "int64", "nullable": False}, {"name": "name", "type": "string"}],
}
CSV = {"Content-Type": "text/csv; charset=utf-8"}
MESSAGE = b'{"tableName":{"name":"u","hash":1},"opType":"I","exists":{"id":1},"after":{"id":7}}'


@pytest.fixture
def answers(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Post bodies one after the other to the real app on an empty database that has table `t`."""
    monkeypatch.setattr(application, "configure_logging", lambda _: None)
    settings = Settings(database_url=SecretStr(database_url), admin_key=SecretStr(KEY))

    async def post_all(requests: list[tuple[dict[str, Any], dict[str, str], bytes]]) -> list[httpx.Response]:
        app = application.create_app(settings)
        headers = {"Authorization": f"Bearer {KEY}"}
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway", headers=headers) as client,
        ):
            (await client.put("/v1/tables/t", json=TABLE)).raise_for_status()
            return [
                await client.post("/v1/changes/arcion", params=parameters, headers=more, content=body)
                for parameters, more, body in requests
            ]

    return lambda *requests: asyncio.run(post_all(list(requests)))


def test_csv_is_accepted_in_both_modes(answers: Any) -> None:
    snapshot = {"table": "t", "mode": "snapshot"}
    responses = answers(
        (snapshot | {"columns": "id,name"}, CSV, b' 1 ,"a\nb"\n2,NULL\n'),
        (snapshot | {"header": True, "delimiter": ";", "quote": "'"}, CSV, b"name;id\n'x;y';3\n"),
        ({"table": "t", "mode": "realtime", "columns": "name,id"}, CSV, b'NULL,NULL,0,NULL,1,2,D,"{""v"":2}","{}"\n'),
    )
    assert [response.status_code for response in responses] == [202, 202, 202]
    assert [response.json()["receipts"][0]["rows"] for response in responses] == [2, 1, 1]


def test_a_rejected_csv_names_the_line(answers: Any) -> None:
    snapshot = {"table": "t", "mode": "snapshot", "columns": "id,name"}
    body = b'1,"a\nb"\nx,c\n'
    [wrong, *others] = answers(
        (snapshot, CSV, body),
        ({"mode": "snapshot", "columns": "id"}, CSV, body),
        ({"table": "t", "columns": "id"}, CSV, body),
        ({"table": "t", "mode": "snapshot"}, CSV, body),
        (snapshot | {"table": "other"}, CSV, body),
        (snapshot | {"mode": "full"}, CSV, body),
        (snapshot, {"Content-Type": "text/plain"}, body),
    )
    [error] = wrong.json()["errors"]
    assert (error["index"], error["column"], error["code"]) == (1, "id", "bad_value")
    assert error["detail"].startswith("line 3: ")
    codes = [(response.status_code, response.json()["code"]) for response in others]
    assert codes == [
        (400, "bad_request"),
        (400, "bad_request"),
        (422, "columns_required"),
        (404, "unknown_table"),
        (400, "bad_request"),
        (415, "unsupported_media_type"),
    ]


def test_override_takes_messages_of_another_address_and_wrong_hashes_are_counted(answers: Any) -> None:
    json = {"Content-Type": "application/json"}
    before = HASH_MISMATCHES._value.get()
    rejected, taken, without_table = answers(
        ({"table": "t"}, json, MESSAGE),
        ({"table": "t", "override": True}, json, MESSAGE),
        ({"override": True}, json, MESSAGE),
    )
    assert (rejected.status_code, rejected.json()["code"]) == (422, "table_mismatch")
    assert taken.json()["receipts"][0]["table"] == "t"
    assert (without_table.status_code, without_table.json()["code"]) == (400, "bad_request")
    assert HASH_MISMATCHES._value.get() == before + 2
