"""Registering tables and their options over HTTP; a dry run answers what would change, and changes nothing."""

import json
from typing import Any, Final

import httpx
import pytest

from mirrorgate.errors.site import with_addresses
from tests.api.calls import Gateway, insert, problem, shown_defaults
from tests.api.conftest import ClientWith
from tests.support.gateway_parts import current
from tests.support.postgres import sql

T: Final = "/v1/tables/t"
COLUMNS = {"id": "int64", "name": "string", "total": "decimal(12,2)"}


def test_a_new_table_is_created_and_the_same_again_changes_nothing(gateway: Gateway) -> None:
    created = gateway.register("sales.orders", COLUMNS, ["id"])
    again = gateway.register("SALES.Orders", COLUMNS, ["id"])
    assert (created.status_code, again.status_code) == (201, 200)
    status = gateway.status("sales.orders")
    for answer, outcome in ((created.json(), "created"), (again.json(), "unchanged")):
        assert answer["changes"]["outcome"] == outcome
        assert answer == status | {"undeclared_columns": [], "changes": answer["changes"]}
    nothing = {"batches": 0, "changes": 0, "rows": 0}
    assert status == {
        "table": "sales.orders",
        "generation": 1,
        "state": "active",
        "state_reason": None,
        "quarantined_at": None,
        "rows_lack": {},
        "failing": None,
        "key_columns": ["id"],
        "schema_version": 1,
        "options": shown_defaults() | {"seed_file": True},
        "lag": {"batches": 0, "rows": 0, "bytes": 0, "oldest_seconds": 0.0},
        "source": {"lag_seconds": None, "extraction_lag_seconds": None, "measured_at": None, "missing_changes": 0},
        "accepted": nothing,
        "staged": nothing,
        "published": {**nothing, "files": 0, "last_at": None},
        "processed": None,
        "mirror": None,
        "load": None,
        "backfill": None,
        "rebuild": None,
        "row_images": None,
        "dead_letters": {"waiting": 0, "oldest_seconds": 0.0},
        "last_sequence": 0,
        "published_through": 0,
        "troubles": [],
        "last_file": None,
    }


def test_a_seed_file_is_an_option_like_any_other(gateway: Gateway) -> None:
    body = {"columns": [COLUMN], "options": {"seed_file": False}}
    assert gateway.put("/v1/tables/t", json=body).status_code == 201
    assert gateway.status("t")["options"]["seed_file"] is False
    assert gateway.put("/v1/tables/t", json={"options": {"seed_file": True}}).status_code == 200
    status = gateway.status("t")
    assert status["options"]["seed_file"] is True
    assert (status["published"]["files"], status["last_file"]) == (0, None)


def test_new_nullable_columns_make_a_new_schema_version(gateway: Gateway) -> None:
    gateway.register("orders", COLUMNS, ["id"])
    evolved = gateway.register("orders", COLUMNS | {"note": "json"}, ["id"])
    assert (evolved.status_code, evolved.json()["schema_version"]) == (200, 2)
    schema = gateway.get("/v1/tables/orders/schema").json()
    assert schema == {
        "table": "orders",
        "generation": 1,
        "schema_version": 2,
        "key_columns": ["id"],
        "left_columns": [],
        "columns": [
            {"name": "id", "type": "int64", "nullable": False},
            {"name": "name", "type": "string", "nullable": True},
            {"name": "total", "type": "decimal(12,2)", "nullable": True},
            {"name": "note", "type": "json", "nullable": True},
        ],
    }


COLUMN: Final = {"name": "a", "type": "int64"}


def check_rejected(gateway: Gateway, body: Any, code: str, pointers: str, detail: str) -> None:
    """Register with a body that must be rejected: the pointers of its errors, and how the detail begins."""
    content = body if isinstance(body, bytes) else json.dumps(body)
    answer = gateway.put(T, content=content, headers={"Content-Type": "application/json"})
    found = problem(answer, 400 if code in {"bad_request", "malformed_json"} else 422, code)
    errors = [(error["code"], error.get("pointer", "nowhere")) for error in found["errors"]]
    assert errors == [(code, pointer) for pointer in pointers.split(" ")]
    assert found["detail"].startswith(detail)
    assert code != "bad_option" or with_addresses("docs/reference/options.md") in found["remedy"]
    assert gateway.get("/v1/tables").json()["tables"] == []


@pytest.mark.parametrize(
    ("body", "pointers", "detail"),
    [
        (b"", "", "the body: is missing"),
        ([], "", "the body: must be a JSON object"),
        ({"columns": 7}, "/columns", "columns: must be an array"),
        ({"columns": [{"name": "a"}]}, "/columns/0/type", "type: is missing"),
        ({"columns": [COLUMN | {"type": 1, "x/y": 2}]}, "/columns/0/type /columns/0/x~1y", "type: must be a string"),
        ({"columns": [COLUMN | {"typ": 1}]}, "/columns/0/typ", "unknown key `typ`; known: name, nullable, type"),
        ({"columns": [COLUMN | {"nullable": "x"}]}, "/columns/0/nullable", "nullable: must be true or false"),
        ({"columns": [], "key_columns": "a"}, "/key_columns", "key_columns: must be an array"),
        ({"keys": ["a"]}, "/keys", "unknown key `keys`; known: arrow_schema, columns, key_columns, options"),
    ],
)
def test_a_body_of_another_shape_is_rejected_in_the_words_of_the_contract(
    gateway: Gateway, body: Any, pointers: str, detail: str
) -> None:
    check_rejected(gateway, body, "bad_request", pointers, detail)


def test_the_remedy_of_a_string_that_postgres_cannot_store_names_what_to_remove(gateway: Gateway) -> None:
    columns = [{"name": "id", "type": "int64", "nullable": False}]
    options = {"constants": {"site": {"type": "string", "value": "a\0"}}}
    answer = gateway.put(T, json={"columns": columns, "key_columns": ["id"], "options": options})
    assert "U+0000" in problem(answer, 422, "unstorable")["remedy"]


@pytest.mark.parametrize("body", [b"{", b'{"columns":NaN'])
def test_a_body_that_is_no_json_is_rejected(gateway: Gateway, body: bytes) -> None:
    check_rejected(gateway, body, "malformed_json", "nowhere", "not valid JSON at character")


@pytest.mark.parametrize(
    ("body", "headers", "status", "code", "detail"),
    [
        (b'{"columns":[],"columns":[]}', {}, 400, "duplicate_member", "an object has the key `columns` twice"),
        (b'{"columns":[{"name":"a","name":"b"}]}', {}, 400, "duplicate_member", "an object has the key `name` twice"),
        (b'{"columns":[{"name":"a\\ud800"}]}', {}, 400, "malformed_json", "half of a surrogate pair"),
        (b'{"columns":[{"name":"\xff"}]}', {}, 400, "malformed_json", "it is not UTF-8"),
        ('{"columns":[]}'.encode("utf-16"), {}, 400, "malformed_json", "it is not UTF-8"),
        (b'{"columns":' + b"[" * 100_000, {}, 400, "malformed_json", "it is nested too deeply"),
        (b'{"columns":' + b"1" * 5_000, {}, 400, "malformed_json", "a number has too many digits"),
        (b"\x1f\x8b", {"Content-Encoding": "gzip"}, 415, "unsupported_encoding", "only a body of changes"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_body_that_readers_understand_differently_is_rejected(
    gateway: Gateway, body: bytes, headers: dict[str, str], status: int, code: str, detail: str
) -> None:
    answer = gateway.put(T, content=body, headers={"Content-Type": "application/json", **headers})
    assert detail in problem(answer, status, code)["detail"]
    assert gateway.get("/v1/tables").json()["tables"] == []


@pytest.mark.parametrize(
    ("column", "code", "pointers", "detail"),
    [
        (COLUMN, "bad_schema", "/columns/1/name", "another column has the same name"),
        ({"name": "b\x00", "type": "int64"}, "bad_name", "/columns/1/name", "a column name has a control character"),
        ({"name": "b", "type": "decimal(39,0)"}, "bad_type", "/columns/1/type", "decimal(p,s) needs 1 <= p <= 38"),
    ],
)
def test_a_column_that_no_table_can_have_is_rejected(
    gateway: Gateway, column: dict[str, Any], code: str, pointers: str, detail: str
) -> None:
    check_rejected(gateway, {"columns": [COLUMN, column]}, code, pointers, detail)


def test_a_key_column_that_is_not_declared_is_rejected(gateway: Gateway) -> None:
    check_rejected(
        gateway, {"columns": [COLUMN], "key_columns": ["b"]}, "bad_schema", "/key_columns/0", "key column 'b'"
    )


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("integer", "int32"),
        ("bigint", "int64"),
        ("varchar(10)", "string"),
        ("NUMERIC(12, 2)", "decimal(12,2)"),
        ("number(9)", "decimal(9,0)"),
        ("double precision", "float64"),
        ("timestamp with time zone", "timestamp"),
        ("decimal", "decimal(p,s)"),
        ("INT64", "int64"),
        ("timestamp(3)", "timestamp"),
        ("BIGINT(20) UNSIGNED", "decimal(20,0)"),
    ],
)
def test_a_type_of_a_database_is_told_what_to_write(gateway: Gateway, given: str, written: str) -> None:
    detail = f"unknown column type `{given}`; write {written}, column b"
    check_rejected(gateway, {"columns": [{"name": "b", "type": given}]}, "bad_type", "/columns/0/type", detail)


@pytest.mark.parametrize(
    ("options", "pointer", "detail"),
    [
        ({"exclud": []}, "/exclud", "unknown key `exclud`; known: audit_columns, "),
        ({"partial_updates": "yes"}, "/partial_updates", "partial_updates: must be 'reject' or 'complete'"),
        ({"dead_letters": True}, "/dead_letters", "dead_letters: must be 'reject' or 'accept'"),
        ({"binary_encoding": "base32"}, "/binary_encoding", "binary_encoding: must be 'hex' or 'base64'"),
        ({"reload": "maybe"}, "/reload", "reload: must be 'reject' or 'upsert'"),
        ({"seed_file": "perhaps"}, "/seed_file", "seed_file: must be true or false"),
        ({"exclude": "name"}, "/exclude", "exclude: must be an array"),
        ({"exclude": ["a"]}, "/exclude", "the key column 'a' cannot be excluded"),
        ({"columns": {"a/b": {"colour": "red"}}}, "/columns/a~1b/colour", "unknown key `colour`; known: encoding, "),
        ({"columns": {"a": {"encoding": "octal"}}}, "/columns/a/encoding", "encoding: must be 'hex' or 'base64'"),
        ({"columns": {"a/b": {"type": "integer"}}}, "/columns/a~1b/type", "unknown column type `integer`"),
        *(
            ({"source_timezone": zone}, "/source_timezone", "source_timezone is not a time zone")
            for zone in ("Europe/Atlantis", "localtime", "posixrules", "posix/UTC", "right/UTC")
        ),
        ({"sources": ["fine", ".bad"]}, "/sources/1", "a source must be name, schema.name or catalog.schema.name"),
        ({"sources": ["x" * 9_000 + ".s.t"]}, "/sources/0", "a part of the name is longer than 255 UTF-8 bytes"),
        ({"sources": ["a\0b.t"]}, "/sources/0", "a part of the name is empty or has the character U+0000"),
        ({"initial_load": "without_marker", "insert_marker": "upsert"}, "/initial_load", "initial_load=without_marker"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_an_option_that_there_is_not_is_rejected_with_its_place_and_the_allowed_values(
    gateway: Gateway, options: dict[str, Any], pointer: str, detail: str
) -> None:
    body = {"columns": [COLUMN], "key_columns": ["a"], "options": options}
    check_rejected(gateway, body, "bad_option", f"/options{pointer}", detail)


@pytest.mark.parametrize(("table", "code"), [("_t", "bad_name"), ("a.b.c", "bad_name"), ("..", None), ("a%2Fb", None)])
def test_a_name_that_no_table_can_have_is_rejected(gateway: Gateway, table: str, code: str | None) -> None:
    response = gateway.put(f"/v1/tables/{table}", json={"columns": [COLUMN]})
    if code is None:
        assert response.status_code in {404, 405}
    else:
        problem(response, 422, code)
    assert gateway.get("/v1/tables").json()["tables"] == []


def test_a_listing_shows_every_table_by_name(gateway: Gateway) -> None:
    for table in ("b", "a.z", "a"):
        gateway.register(table, COLUMNS)
    assert [table["table"] for table in gateway.get("/v1/tables").json()["tables"]] == ["a", "a.z", "b"]


NOTHING: dict[str, Any] = {"key_columns": [], "columns": [], "nullable": [], "options": []}


def body(*columns: str, key: list[str] | None = None, **options: Any) -> dict[str, Any]:
    """Return a registration; a column is `name type` or `name type!` if it is required."""
    declared = []
    for text in columns:
        name, _, of = text.partition(" ")
        declared.append({"name": name, "type": of.removesuffix("!"), "nullable": not of.endswith("!")})
    return {"columns": declared, "key_columns": key or []} | ({"options": options} if options else {})


def changes(gateway: Gateway, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return what a dry run would change, after checking that the registration then does just that."""
    tried = gateway.put(T, params={"dry_run": True}, json=wanted)
    done = gateway.put(T, json=wanted)
    found: dict[str, Any] = tried.json()["changes"]
    assert (tried.status_code, found) == (200, done.raise_for_status().json()["changes"])
    return found


def test_a_new_table_is_told_with_its_key_columns_and_chosen_options(gateway: Gateway) -> None:
    wanted = body("id int64!", "note string", key=["id"], row_images="on", seed_file=False)
    assert gateway.put(T, params={"dry_run": True}, json=wanted).json()["generation"] == 1
    problem(gateway.get(T), 404, "unknown_table")
    assert sql.value(gateway.engine, "SELECT count(*) FROM mirrorgate.tables") == 0
    assert changes(gateway, wanted) == {
        "outcome": "created",
        "key_columns": ["id"],
        "columns": [
            {"name": "id", "type": "int64", "nullable": False},
            {"name": "note", "type": "string", "nullable": True},
        ],
        "nullable": [],
        "options": [
            {"option": "seed_file", "before": True, "after": False},
            {"option": "row_images", "before": "off", "after": "on"},
        ],
    }


def test_what_an_existing_table_gets_is_told(gateway: Gateway) -> None:
    gateway.put(T, json=body("id int64", "note string", source_timezone="Europe/Berlin")).raise_for_status()
    wanted = body("id int64", "note string", "seen date", key=["id"], source_timezone="UTC")
    assert changes(gateway, wanted) == {
        "outcome": "evolved",
        "key_columns": ["id"],
        "columns": [{"name": "seen", "type": "date", "nullable": True}],
        "nullable": [],
        "options": [{"option": "source_timezone", "before": "Europe/Berlin", "after": "UTC"}],
    }
    assert changes(gateway, wanted) == {"outcome": "unchanged", **NOTHING}
    assert changes(gateway, {"options": {"dead_letters": "accept"}}) == {
        "outcome": "configured",
        **NOTHING,
        "options": [{"option": "dead_letters", "before": "reject", "after": "accept"}],
    }


def test_a_required_column_may_become_nullable(gateway: Gateway) -> None:
    gateway.put(T, json=body("id int64!", "note string!", key=["id"])).raise_for_status()
    assert changes(gateway, body("id int64!", "note string", key=["id"]))["nullable"] == ["note"]


def test_an_override_that_came_after_its_column_does_not_change_it(gateway: Gateway) -> None:
    gateway.put(T, json=body("id int64", "note string")).raise_for_status()
    override = {"columns": {"note": {"nullable": False}}}
    assert changes(gateway, body("id int64", "note string", **override))["outcome"] == "configured"
    wide = changes(gateway, body("id int64", "note string", "seen date", **override))
    assert [column["name"] for column in wide["columns"]] == ["seen"]


def test_a_key_that_may_only_read_is_told_what_an_administrator_would_change(gateway: Gateway) -> None:
    gateway.put(T, json=body("id int64", "note string", masks={"note": {"method": "null"}})).raise_for_status()
    wanted = body("id int64", "note string", masks={})
    tried = {}
    for right in ("read", "register"):
        with Gateway.at(gateway.address, gateway.new_key(right)["key"]) as client:
            tried[right] = client.put(T, params={"dry_run": True}, json=wanted)
            problem(client.put(T, json=wanted), 403, "forbidden")
    problem(tried["register"], 403, "forbidden")
    assert tried["read"].json()["changes"] == changes(gateway, wanted)


def test_everything_that_does_not_fit_is_told_with_its_place(gateway: Gateway) -> None:
    gateway.put(T, json=body("a int64!", "b string", "c date!", "d date", key=["a"])).raise_for_status()
    wanted = body("a int64", "b int32", "d date!", "e date!", key=["a", "b"])
    for parameters in ({"dry_run": True}, {}):
        found = problem(gateway.put(T, params=parameters, json=wanted), 409, "incompatible_schema")
        assert [(one.get("pointer"), one["detail"]) for one in found["errors"]] == [
            ("/key_columns", "the key is (a) and cannot become (a, b)"),
            ("/columns/0", "the key column a is required and cannot become nullable"),
            ("/columns/1", "column b is string and cannot become int32"),
            (None, "column c is required and cannot be removed"),
            ("/columns/2", "column d is nullable and cannot become required"),
            ("/columns/3", "new column e must be nullable, because existing rows do not have it"),
        ]


@pytest.mark.parametrize("options", [{"initial_load": "without_marker"}, {"exclude": ["id"]}])
def test_an_option_that_cannot_be_set_is_rejected_by_both(gateway: Gateway, options: dict[str, Any]) -> None:
    gateway.put(T, json=body("id int64!", key=["id"])).raise_for_status()
    answers = [gateway.put(T, params=how, json={"options": options}) for how in ({"dry_run": True}, {})]
    assert answers[0].status_code == 422
    assert answers[0].json()["detail"] == answers[1].json()["detail"]


OPTION_COLUMNS = [{"name": "id", "type": "int64", "nullable": False}, {"name": "blob", "type": "binary"}]


def put(gateway: Gateway, declare: bool = True, table: str = "t", **options: Any) -> httpx.Response:
    body: dict[str, Any] = {"columns": OPTION_COLUMNS, "key_columns": ["id"]} if declare else {}
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
    columns = [*OPTION_COLUMNS, {"name": "note", "type": "string"}]
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
    body = {"columns": [*OPTION_COLUMNS, mail], "key_columns": ["id"], "options": grouped}
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
