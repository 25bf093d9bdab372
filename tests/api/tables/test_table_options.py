"""Table options over HTTP: valid values, rejections with their location, and dry runs."""

from typing import Any

import httpx
import pytest

from tests.api.calls import Gateway, insert, problem, shown_defaults
from tests.api.conftest import ClientWith
from tests.support.gateway_parts import current

COLUMNS = [{"name": "id", "type": "int64", "nullable": False}, {"name": "blob", "type": "binary"}]


def put(gateway: Gateway, declare: bool = True, table: str = "t", **options: Any) -> httpx.Response:
    body: dict[str, Any] = {"columns": COLUMNS, "key_columns": ["id"]} if declare else {}
    return gateway.put(f"/v1/tables/{table}", json=body | ({"options": options} if options else {}))


HIDING: dict[str, Any] = {
    "masks": {"note": {"method": "truncate", "characters": 3}},
    "exclude": ["blob"],
    "filter": {"column": "id", "op": ">", "value": "0"},
}


@pytest.mark.parametrize(
    ("options", "hides"),
    [
        ({"masks": {}}, "the mask of column 'note'"),
        ({"masks": {"note": {"method": "truncate", "characters": 4}}}, "the mask of column 'note'"),
        ({"masks": {"note": {"method": "hash"}}}, "the mask of column 'note'"),
        ({"exclude": []}, "the exclusion of column 'blob'"),
        ({"filter": None}, "the filter"),
        ({"filter": {"column": "id", "op": ">=", "value": "0"}}, "the filter"),
    ],
)
def test_what_hides_values_is_added_with_register_and_taken_away_with_admin(
    gateway: Gateway, client_with: ClientWith, options: dict[str, Any], hides: str
) -> None:
    columns = [*COLUMNS, {"name": "note", "type": "string"}]
    registrar = client_with("register", "read", "ingest", tables=["t"])
    for given in ({}, HIDING, HIDING):
        body = {"columns": columns, "key_columns": ["id"], "options": given}
        registrar.put("/v1/tables/t", json=body).raise_for_status()
    before = gateway.status("t")
    details = problem(registrar.put("/v1/tables/t", json={"options": options}), 403, "forbidden")
    assert details["detail"] == f"{hides} of table t hides values or rows; changing that needs the right `admin`"
    assert gateway.status("t") == before
    put(client_with("admin", tables=["t"]), declare=False, **options).raise_for_status()
    assert gateway.events("t")[-1]["action"] in {"change row rules", "change schema"}


def test_only_a_caller_for_all_tables_brings_a_table_into_a_group_of_hashes(
    gateway: Gateway, client_with: ClientWith
) -> None:
    mail = {"name": "mail", "type": "string"}
    grouped = {"masks": {"mail": {"method": "hash", "group": "people"}}}
    body = {"columns": [*COLUMNS, mail], "key_columns": ["id"], "options": grouped}
    for stranger in (client_with("register", tables=["own.*"]), client_with("admin", tables=["own.*"])):
        details = problem(stranger.put("/v1/tables/own.t", json=body), 403, "forbidden")
        assert "'people'" in details["detail"]
        assert "for all tables" in details["remedy"]
    problem(gateway.get("/v1/tables/own.t"), 404, "unknown_table")
    administrator = client_with("admin", tables=["own.*"])
    administrator.put("/v1/tables/own.t", json=body | {"options": {}}).raise_for_status()
    recreate = {"url": "/v1/tables/own.t/recreate", "params": {"generation": 1}, "json": {"options": grouped}}
    problem(administrator.post(**recreate), 403, "forbidden")
    assert gateway.status("own.t")["state"] == "active"

    client_with("register").put("/v1/tables/own.t", json=body).raise_for_status()
    client_with("register", tables=["own.*"]).put("/v1/tables/own.t", json=body).raise_for_status()
    administrator.post(**recreate).raise_for_status()


def test_every_option_is_shown_as_it_was_given(gateway: Gateway) -> None:
    given = {
        "partial_updates": "complete",
        "new_columns": "add_as_string",
        "source_order": "enforce",
        "reload": "upsert",
        "insert_marker": "upsert",
        "exclude": ["b", "a"],
        "sources": ["old", "s.old", "C.s.old"],
        "source_timezone": "Europe/Berlin",
        "binary_encoding": "base64",
        "columns": {"blob": {"encoding": "hex"}, "n": {"type": "decimal(9,2)", "nullable": True, "encoding": None}},
    }
    shown = put(gateway, **given).json()["options"]
    part = {"type": None, "nullable": None, "encoding": None, "unit": None}
    columns = {"blob": part | {"encoding": "hex"}, "n": part | {"type": "decimal(9,2)", "nullable": True}}
    assert shown == shown_defaults() | {"seed_file": True} | given | {"columns": columns}
    assert shown == gateway.status("t")["options"] == gateway.get("/v1/tables").json()["tables"][0]["options"]


def test_options_stay_where_a_put_leaves_them_out_and_the_same_again_changes_nothing(gateway: Gateway) -> None:
    options = {"reload": "upsert", "exclude": ["x"], "sources": ["a", "c.a.b"], "columns": {"blob": {}}}
    first = put(gateway, **options)
    before = current(gateway.engine, "t")
    shown = first.json()["options"]
    for again in (put(gateway), put(gateway, **options), put(gateway, False), put(gateway, False, **shown)):
        assert (again.status_code, again.json()["changes"]["outcome"]) == (200, "unchanged")
        assert again.json() == first.json() | {"changes": again.json()["changes"]}
    assert current(gateway.engine, "t") == before
    changed = put(gateway, False, reload="reject")
    assert changed.json()["options"] == shown | {"reload": "reject"}
    assert current(gateway.engine, "t").revision == before.revision + 1


def test_a_new_table_needs_columns_beside_its_options(gateway: Gateway) -> None:
    problem(put(gateway, False, reload="upsert"), 422, "bad_schema")


def test_a_key_must_cover_the_sources_that_it_leads_to_a_table(gateway: Gateway, client_with: ClientWith) -> None:
    mine = client_with("register", tables=["mine.*"])
    problem(put(mine, table="mine.t", sources=["mine.old", "yours.t"]), 404, "unknown_table")
    problem(put(mine, table="mine.t", sources=["c.yours.t"]), 404, "unknown_table")
    assert gateway.get("/v1/tables").json()["tables"] == []
    assert put(mine, table="mine.t", sources=["mine.old", "c.mine.older"]).status_code == 201


def test_duplicates_stand_in_the_answer_and_in_the_metrics(gateway: Gateway) -> None:
    put(gateway, source_order="enforce")
    message = {"headers": {"operation": "INSERT", "changeSequence": "1".zfill(35)}, "data": {"id": 1, "blob": "00"}}
    answers = [gateway.replicate(message, message, table="t").json() for _ in range(2)]
    assert [(answer["duplicates"], len(answer["receipts"])) for answer in answers] == [(1, 1), (2, 0)]
    assert gateway.metric("duplicate_changes_total") >= 3


def test_a_dry_run_answers_rows_as_json(gateway: Gateway) -> None:
    put(gateway, new_columns="add_as_string")
    response = gateway.arcion(insert("t", id="9007199254740993", blob="0102", note="x"), dry_run=True)
    row = {"id": 9007199254740993, "blob": "AQI=", "note": "x", "__rowMarker__": 0}
    table = {"table": "t", "generation": 1, "schema_version": 2, "rows": [row]}
    assert (response.status_code, response.json()) == (200, {"tables": [table], "ignored": 0, "duplicates": 0})
    parameters = {"table": "t", "mode": "snapshot", "columns": "id,blob", "dry_run": "true"}
    response = gateway.body("arcion", "1,NULL\n", "text/csv", **parameters)
    assert response.json()["tables"][0]["rows"] == [{"id": 1, "blob": None, "__rowMarker__": 0}]
    problem(gateway.arcion(insert("t", id="x"), dry_run=True), 422, "bad_value")
    problem(gateway.replicate({"data": {}}, dry_run=True), 422, "malformed_message")
    status = gateway.status("t")
    assert (status["schema_version"], status["accepted"]["batches"]) == (1, 0)
