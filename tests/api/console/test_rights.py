"""Every route of the console with sessions of every right: who gets in, and that the others change nothing."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from itertools import product
from pkgutil import iter_modules
from typing import Any, Final

import pytest
import sqlalchemy as sa

from app.api.console import pages
from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.console.browser.stock import Stock
from tests.api.console.plain_browser import Browser, signed_in
from tests.support.postgres import sql
from tests.support.postgres.databases import clear

TABLE: Final = "sales.orders"
OUTSIDE: Final = "hr.*"
USERS: Final = [*product(("read", "ingest", "read ingest", "admin"), ("*", "sales.*", OUTSIDE))]
"""The rights of each session and the tables that they are for."""

TABLE_PAGES: Final = "events|release|backfill|rebuild|rebuild/confirm|recreate|drop"
RULES: Final = {
    r"\w+ /console/(audit|doctor|keys)(/.*)?": ("admin", "for every table"),
    r"GET /console/(try|producers)": ("ingest", ""),
    r"GET /console/tables/{table}/loads/{load}/abort": ("ingest read", "of a table"),
    r"POST /console/(try|tables/{table}/loads/{load}/abort)": ("ingest", "of a table"),
    rf"GET /console/tables/{{table}}/({TABLE_PAGES})": ("admin", "of a table"),
    r"GET /console/dead-letters/{letter_id:digits}/message": ("admin", "of a table"),
    r"POST /console/dead-letters/(replay|discard)": ("admin", ""),
    r"POST .*": ("admin", "of a table"),
    r"GET .*{(table|letter_id:digits)}.*": ("read", "of a table"),
    r"GET .*": ("read", ""),
}
"""The rights that a route needs, in the order in which it checks them, and whether it is of a table or for every table.
The first entry that fits method and path counts."""

LOOKS: Final = """
    SELECT (SELECT array_agg(secret_hash ORDER BY key_id) FROM mirrorgate.api_keys),
        (SELECT array_agg(state ORDER BY letter_id) FROM mirrorgate.dead_letters),
        (SELECT jsonb_agg(t) FROM mirrorgate.tables t), (SELECT array_agg(state) FROM mirrorgate.loads),
        (SELECT count(*) FROM mirrorgate.table_events), (SELECT count(*) FROM mirrorgate.rebuilds)"""

PAGES: Final = [import_module(module.name) for module in iter_modules(pages.__path__, f"{pages.__name__}.")]
ROUTES: Final = [
    f"{method} {route.path}"
    for page in PAGES
    if hasattr(page, "router")
    for route in page.router.routes
    for method in route.methods
]


@pytest.fixture(scope="module")
def fields(api_address: str, api_engine: sa.Engine) -> dict[str, Any]:
    """Make a table with everything that pages are about; return the parts of paths, and fields that change nothing."""
    sql.call(api_engine, clear, restart_ids=False)
    with Gateway.at(api_address, ADMIN_KEY) as gateway:
        stock = Stock(gateway, api_engine)
        stock.publish_and_send(TABLE)
        stock.reject(TABLE)
        stock.check_a_rebuild(TABLE)
        load = gateway.post(f"/v1/tables/{TABLE}/loads", json={"mode": "full"}).raise_for_status().json()["load"]
        ids = {"load": load, "letter_id": gateway.letters(TABLE)[0]["id"], "key_id": gateway.new_key("read")["id"]}
    typed = {"dead_letter": ids["letter_id"], "generation": 9, "through": 1, "format": "rows", "parameters": ""}
    return ids | typed | {"table": TABLE, "number": 1}


@pytest.fixture(scope="module")
def users(api_address: str, fields: dict[str, Any]) -> Iterator[list[Browser]]:
    with Gateway.at(api_address, ADMIN_KEY) as gateway, ExitStack() as stack:
        keys = [gateway.new_key(*rights.split(), tables=[tables])["key"] for rights, tables in USERS]
        yield [stack.enter_context(signed_in(api_address, key)) for key in keys]


def rejection(route: str, rights: str, tables: str) -> int | None:
    """Return the status that a user gets instead of the page."""
    needed, scope = next(rule for pattern, rule in RULES.items() if re.fullmatch(pattern, route))
    for right in needed.split():
        if rights != "admin" and right not in rights.split():
            return 403
        if scope == "for every table" and tables != "*":
            return 403
        if scope == "of a table" and tables == OUTSIDE:
            return 404
    return None


@pytest.mark.parametrize("route", ROUTES)
def test_each_user_gets_in_by_the_rule_and_the_others_change_nothing(
    users: list[Browser], fields: dict[str, Any], api_engine: sa.Engine, route: str
) -> None:
    method, path = route.replace(":digits", "").format(**fields).split(" ")

    def visit(user: Browser) -> int:
        answer = user.get(path) if method == "GET" else user.submit(path, **fields)
        return [*answer.history, answer][0].status_code

    expected = [rejection(route, *user) for user in USERS]
    before = sql.rows(api_engine, LOOKS)
    assert [status and visit(user) for user, status in zip(users, expected, strict=True)] == expected
    assert sql.rows(api_engine, LOOKS) == before
    let_in = {visit(user) for user, status in zip(users, expected, strict=True) if status is None}
    assert let_in
    assert not let_in & {403, 404}
