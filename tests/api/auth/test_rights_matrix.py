"""Every route of the contract with every kind of caller; one table gives the expected status."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

import httpx
import pytest
import sqlalchemy as sa

from app.api.application import create_app
from app.api.server.request_parameters import ARROW_STREAM
from app.domain.access.rights import Right, format_key, hash_secret
from app.settings import Settings
from app.staging.access.api_keys import delete_key, insert_key
from tests.api.calls import ADMIN_KEY, Gateway, insert
from tests.support.postgres import sql
from tests.support.postgres.databases import clear

TABLE: Final = "sales.orders"
PATTERNS: Final = {"every table": "*", "within": "sales.*", "outside": "other.*"}
WITHOUT_A_VALID_KEY: Final = ("none", "malformed", "unknown", "wrong secret", "deleted", "expired")
SECRET: Final = "s" * 43

MISMATCH: Final = (409, "generation_mismatch")
UNKNOWN: Final = (404, "unknown_table")
UNKNOWN_LETTER: Final = (404, "unknown_dead_letter")


@dataclass(frozen=True)
class Rule:
    """Who may make a call, and what those who may are answered."""

    right: str | None
    answer: tuple[int, str | None] = (200, None)
    about_a_table: bool = False
    """Those whose patterns the table is outside of are answered as if it did not exist."""
    every_table: bool = False
    """Only a key for every table may."""
    query: dict[str, Any] = field(default_factory=dict)
    json: Any = None
    media_type: str | None = None
    """Of a body that is no JSON; it is not valid."""


def act(json: Any = None) -> Rule:
    """Return the rule of an operation, called with a generation that the table does not have."""
    return Rule("admin", MISMATCH, about_a_table=True, query={"generation": 9}, json=json)


def read() -> Rule:
    return Rule("read", about_a_table=True)


REPLICATE: Final = {"headers": {"operation": "INSERT"}, "data": {"id": 1}}
RULES: Final = {
    "post_arcion_changes": Rule(
        "ingest", about_a_table=True, query={"dry_run": "true"}, json=lambda table: insert(table, id="1")
    ),
    "post_replicate_changes": Rule(
        "ingest", about_a_table=True, query={"dry_run": "true", "table": TABLE}, json=REPLICATE
    ),
    "post_debezium_changes": Rule(
        "ingest", about_a_table=True, query={"dry_run": "true", "table": TABLE}, json={"op": "c", "after": {"id": 1}}
    ),
    "post_rows": Rule(
        "ingest", about_a_table=True, query={"dry_run": "true", "table": TABLE}, json=lambda table: [{"id": 1}]
    ),
    "post_arrow_rows": Rule(
        "ingest", (400, "malformed_arrow"), about_a_table=True, query={"table": TABLE}, media_type=ARROW_STREAM
    ),
    "list_dead_letters": read(),
    "get_dead_letter": Rule("admin", UNKNOWN_LETTER, about_a_table=True),
    "replay_dead_letter": Rule("admin", UNKNOWN_LETTER, about_a_table=True),
    "discard_dead_letter": Rule("admin", UNKNOWN_LETTER, about_a_table=True),
    "replay_dead_letters": Rule("admin", (202, None), about_a_table=True),
    "discard_dead_letters": Rule("admin", about_a_table=True, query={"generation": 1, "through": 1}),
    "get_producer": Rule("ingest", (404, "unknown_producer")),
    "register_table": Rule(
        "register",
        about_a_table=True,
        json={"key_columns": ["id"], "columns": [{"name": "id", "type": "int64", "nullable": False}]},
    ),
    "list_tables": Rule("read"),
    "get_table": read(),
    "list_table_files": read(),
    "get_table_mirror": Rule("read", (404, "not_mirrored"), about_a_table=True),
    "list_table_rows": Rule("read", (404, "not_mirrored"), about_a_table=True),
    "get_batch": Rule("read", (404, "unknown_batch"), about_a_table=True),
    "get_table_schema": read(),
    "get_table_chain": read(),
    "drop_table": act(),
    "recreate_table": act(),
    "rename_table": act({"name": "sales.renamed"}),
    "rebuild_table": Rule("admin", (409, "no_row_images"), about_a_table=True, query={"generation": 1}),
    "backfill_row_images": Rule("admin", (409, "no_row_images"), about_a_table=True, query={"generation": 1}),
    "cancel_backfill": act(),
    "check_table_source": Rule("read", (409, "no_row_images"), about_a_table=True, json={"buckets": {}}),
    "begin_load": Rule("ingest", (409, "no_row_images"), about_a_table=True, json={"mode": "append"}),
    "list_loads": Rule("ingest", about_a_table=True),
    "get_load": Rule("ingest", (404, "unknown_load"), about_a_table=True),
    "abort_load": Rule("ingest", (404, "unknown_load"), about_a_table=True),
    "complete_load": Rule("ingest", (404, "unknown_load"), about_a_table=True),
    "pause_table": act(),
    "resume_table": act(),
    "flush_table": act(),
    "repair_file": act(),
    "release_table": act({"reason": "looked"}),
    "list_table_events": Rule("admin", about_a_table=True),
    "list_layouts": Rule("read"),
    "get_layout": Rule("read", (404, "unknown_layout")),
    "set_layout": Rule(
        "register",
        (422, "bad_layout"),
        every_table=True,
        json={"data": "row", "operation": "op", "operations": {"": "insert"}},
    ),
    "delete_layout": Rule("register", (404, "unknown_layout"), every_table=True),
    "list_keys": Rule("admin", every_table=True),
    "create_key": Rule("admin", (201, None), every_table=True, json={"rights": ["read"]}),
    "rotate_key": Rule("admin", (404, "unknown_key"), every_table=True),
    "delete_key": Rule("admin", (404, "unknown_key"), every_table=True),
    "update_key": Rule("admin", (404, "unknown_key"), every_table=True, json={}),
    "list_audit": Rule("admin", every_table=True),
    "get_metrics": Rule("read"),
    "get_health": Rule(None),
    "get_readiness": Rule(None),
    "get_gateway_status": Rule(None, (503, None)),
}
"""By operation id. Add each new route here, with the rights that may call it."""

PARAMETERS: Final = {
    "generation": 1,
    "sequence": 1,
    "number": 1,
    "producer": "none",
    "key_id": "00112233",
    "letter_id": 1,
    "load": "00000000-0000-4000-8000-000000000001",
    "name": "none",
}


@cache
def operations() -> dict[str, tuple[str, str]]:
    """Return the method and the path of each operation by its id."""
    return {
        operation["operationId"]: (method.upper(), path)
        for path, item in create_app(Settings()).openapi()["paths"].items()
        for method, operation in item.items()
    }


Callers = dict[str, Gateway]


def test_every_route_of_the_contract_has_its_rule() -> None:
    assert operations().keys() == RULES.keys()


@pytest.fixture(scope="module")
def callers(api_address: str, api_engine: sa.Engine) -> Iterator[Callers]:
    """Give a client per right and kind of patterns, and one per kind of invalid key."""
    sql.call(api_engine, clear, restart_ids=False)
    with ExitStack() as stack:

        def client(key: str | None) -> Gateway:
            return stack.enter_context(Gateway.at(api_address, key))

        client(ADMIN_KEY).register(TABLE, {"id": "int64"}, ["id"]).raise_for_status()
        keys = iter(range(10**8, 10**9))

        def key(right: str, pattern: str, expires_at: datetime | None = None) -> str:
            key_id = str(next(keys))
            sql.call(api_engine, insert_key, key_id, hash_secret(SECRET), (Right(right),), (pattern,), expires_at)
            return format_key(key_id, SECRET)

        deleted = key("admin", "*")
        sql.call(api_engine, delete_key, deleted.split("_")[1])
        yield {
            "none": client(None),
            "malformed": client("mg_x"),
            "unknown": client(format_key("ffffffff", SECRET)),
            "wrong secret": client(key("admin", "*")[:-1] + "t"),
            "deleted": client(deleted),
            "expired": client(key("admin", "*", datetime.now(UTC) - timedelta(seconds=1))),
            **{
                f"{right} {place}": client(key(right, pattern))
                for right in Right
                for place, pattern in PATTERNS.items()
            },
        }


def expected(rule: Rule, caller: str) -> tuple[int, str | None]:
    if rule.right is None:
        return rule.answer
    if caller in WITHOUT_A_VALID_KEY:
        return 401, "unauthenticated"
    right, _, place = caller.partition(" ")
    if right not in {rule.right, "admin"} or (rule.every_table and place != "every table"):
        return 403, "forbidden"
    return UNKNOWN if rule.about_a_table and place == "outside" else rule.answer


def call(client: Gateway, operation: str, table: str = TABLE, **changed: Any) -> httpx.Response:
    """Make a call by its rule, about a table and with other query parameters; those that are None are left out."""
    method, path = operations()[operation]
    rule = RULES[operation]
    given = {name: table if name == "table" else value for name, value in rule.query.items()} | changed
    query = {name: value for name, value in given.items() if value is not None}
    headers = {"X-Request-Id": "the-same"}
    if rule.media_type:
        headers["Content-Type"] = rule.media_type
        return client.request(method, path, params=query, content=b"x", headers=headers)
    content = rule.json(table) if callable(rule.json) else rule.json
    path = path.format(table=table, **PARAMETERS)
    return client.request(method, path, params=query, json=content, headers=headers)


LOOKS: Final = """
    SELECT (SELECT count(*) FROM mirrorgate.api_keys), (SELECT count(*) FROM mirrorgate.table_events),
        (SELECT jsonb_agg(t) FROM mirrorgate.tables t), (SELECT sum(last_sequence) FROM mirrorgate.table_counters)"""
"""What no rejected call changes. Rejections themselves are counted in the audit."""


@pytest.mark.parametrize("operation", RULES)
def test_each_caller_gets_the_answer_of_the_rule_and_the_rejected_change_nothing(
    callers: Callers, api_engine: sa.Engine, operation: str
) -> None:
    wanted = {caller: expected(RULES[operation], caller) for caller in callers}
    rejected = {caller for caller, (status, _) in wanted.items() if status in {401, 403}}
    before = sql.rows(api_engine, LOOKS)
    answers = {caller: call(callers[caller], operation) for caller in rejected}
    assert sql.rows(api_engine, LOOKS) == before
    answers |= {caller: call(client, operation) for caller, client in callers.items() if caller not in rejected}
    given = {
        caller: (answer.status_code, answer.json()["code"] if "problem" in answer.headers["content-type"] else None)
        for caller, answer in answers.items()
    }
    assert given == wanted


def test_a_dry_run_of_a_registration_needs_only_the_right_to_read_the_table(callers: Callers) -> None:
    for caller, client in callers.items():
        right = "read" if caller.startswith("read ") else "register"
        status, _ = expected(replace(RULES["register_table"], right=right), caller)
        assert call(client, "register_table", dry_run="true").status_code == status, caller
        if right == "read" and status == 200:
            assert call(client, "register_table", "sales.absent", dry_run="true").status_code == 200
            assert call(client, "get_table", "sales.absent").status_code == 404
        malformed = call(client, "register_table", dry_run="x").status_code
        assert malformed == (401 if status == 401 else 400)


@pytest.mark.parametrize("operation", [name for name, rule in RULES.items() if "generation" in rule.query])
def test_an_act_names_the_generation_it_means(callers: Callers, operation: str) -> None:
    admin = callers["admin within"]
    before = admin.events(TABLE)
    for generation, answer in ((None, (400, "bad_request")), (9, MISMATCH)):
        rejected = call(admin, operation, generation=generation)
        assert (rejected.status_code, rejected.json()["code"]) == answer
    assert admin.events(TABLE) == before


TOLD_APART_WITHIN: Final = {
    "register_table",  # makes the table
    "rename_table",  # the error names the new name
    "post_arrow_rows",  # looks at its body first
    "get_dead_letter",
    "replay_dead_letter",
    "discard_dead_letter",
    "list_table_events",  # also of a table that was dropped
}
"""Calls whose answer about a missing table differs within the patterns of a key."""


def header_names(response: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name not in {"date", "content-length"}}


@pytest.mark.parametrize("operation", [name for name, rule in RULES.items() if rule.about_a_table])
def test_a_table_outside_a_keys_patterns_is_answered_as_one_that_does_not_exist(
    callers: Callers, operation: str
) -> None:
    outside, within = (callers[f"{RULES[operation].right} {place}"] for place in ("outside", "within"))
    existing, missing = (call(outside, operation, table) for table in (TABLE, "sales.absent"))
    assert existing.status_code == missing.status_code == 404
    assert existing.text.replace(TABLE, "sales.absent") == missing.text
    assert header_names(existing) == header_names(missing)
    if operation not in TOLD_APART_WITHIN:
        assert call(within, operation, "sales.absent").text == missing.text
