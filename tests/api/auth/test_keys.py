"""API keys: create, list, rotate, delete, expire; which tables they allow, and what is no key."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from app.api.auth.authenticator import (
    CACHE_SECONDS,
    IDS_SECONDS,
    MAX_CACHED_KEYS,
    MAX_UNKNOWN_LOOK_UPS,
    MIN_RECHECK_SECONDS,
    Authenticator,
)
from app.domain.access.rights import Credential, Grant, Right, format_key, hash_secret
from app.staging.access.api_keys import delete_key, insert_key, rotate_key
from app.staging.access.audit_events import AuditWriter
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.api.calls import ADMIN_KEY, Gateway, insert, problem
from tests.api.commands import Terminal
from tests.api.conftest import ClientWith
from tests.support.postgres import sql
from tests.support.rejections import rejected
from tests.support.waiting import Clock, wait_until

TOMORROW = datetime.now(UTC) + timedelta(days=1)
SECRET = "x" * 43


def test_a_created_key_works_and_its_secret_is_shown_once(gateway: Gateway) -> None:
    created = gateway.new_key("read", "ingest", tables=["sales.*"], expires_at=TOMORROW.isoformat())
    assert created["key"].startswith(f"mg_{created['id']}_")
    with Gateway.at(gateway.address, created["key"]) as client:
        assert client.get("/v1/tables").status_code == 200
    listed = gateway.get("/v1/keys")
    [key] = listed.json()["keys"]
    assert datetime.fromisoformat(key.pop("created_at")) <= datetime.now(UTC)
    assert datetime.fromisoformat(key.pop("expires_at")) == TOMORROW
    del key["last_used_at"]
    assert key == {
        "id": created["id"],
        "name": None,
        "rights": ["read", "ingest"],
        "tables": ["sales.*"],
        "former_secret_until": None,
        "hmac": False,
        "requests_per_second": None,
        "bytes_per_second": None,
    }
    _, _, secret = created["key"].split("_", 2)
    assert secret not in listed.text


def test_two_keys_differ_in_id_and_secret(gateway: Gateway) -> None:
    keys = [gateway.new_key("read")["key"].split("_", 2) for _ in range(2)]
    assert all(len({*parts}) == 2 for parts in list(zip(*keys, strict=True))[1:])


@pytest.mark.parametrize("key_id", ["none", "0000000000000001", "a' OR true--"])
def test_a_key_that_does_not_exist_can_neither_be_deleted_nor_rotated(gateway: Gateway, key_id: str) -> None:
    problem(gateway.delete(f"/v1/keys/{key_id}"), 404, "unknown_key")
    problem(gateway.post(f"/v1/keys/{key_id}/rotate"), 404, "unknown_key")


@pytest.mark.parametrize(
    ("wanted", "pointer"),
    [
        ({}, "/rights"),
        ({"rights": []}, "/rights"),
        ({"rights": ["everything"]}, "/rights/0"),
        ({"rights": ["read"], "tables": []}, "/tables"),
        ({"rights": ["read"], "tables": [""]}, "/tables/0"),
        ({"rights": ["read"], "tables": ["a\x00"]}, "/tables/0"),
        ({"rights": ["read"], "tables": ["sales.*", " hr.*"]}, "/tables/1"),
        ({"rights": ["read"], "tables": ["orders "]}, "/tables/0"),
        ({"rights": ["read"], "tables": ["x" * 301]}, "/tables/0"),
        ({"rights": ["read"], "expires_at": "tomorrow"}, "/expires_at"),
        ({"rights": ["read"], "expires_at": 32503680000}, "/expires_at"),
        ({"rights": ["read"], "expires_at": "32503680000"}, "/expires_at"),
        ({"rights": ["read"], "expires_at": "2999-01-01T00:00:00"}, "/expires_at"),
        ({"rights": ["read"], "expires_at": "2020-01-01T00:00:00Z"}, "/expires_at"),
        ({"rights": ["read"], "expires_at": "9999-12-31T23:59:59-14:00"}, "/expires_at"),
        ({"rights": ["read"], "label": "mine"}, "/label"),
        ({"rights": ["read"], "name": ""}, "/name"),
        ({"rights": ["read"], "name": " mine"}, "/name"),
        ({"rights": ["read"], "name": "mi\nne"}, "/name"),
        ({"rights": ["read"], "name": "mine\n"}, "/name"),
        ({"rights": ["read"], "name": "x" * 101}, "/name"),
    ],
)
def test_a_key_that_makes_no_sense_is_not_created(gateway: Gateway, wanted: dict[str, Any], pointer: str) -> None:
    details = problem(gateway.post("/v1/keys", json=wanted), 400, "bad_request")
    assert [error["pointer"] for error in details["errors"]] == [pointer]
    assert gateway.listed_keys() == []


def test_a_rotated_key_keeps_id_rights_tables_and_producers(gateway: Gateway) -> None:
    gateway.register("sales.orders", {"id": "int64"}, ["id"]).raise_for_status()
    created = gateway.new_key("ingest", tables=["sales.*"])
    numbered = {"Mirrorgate-Producer": "erp", "Mirrorgate-Producer-Sequence": "1"}
    body = [insert("sales.orders", id="1")]
    with Gateway.at(gateway.address, created["key"]) as client:
        first = client.post("/v1/changes/arcion", json=body, headers=numbered)
        rotated = gateway.post(f"/v1/keys/{created['id']}/rotate").raise_for_status().json()
        assert client.get("/v1/producers/erp").status_code == 200, "the former secret works"
    assert rotated["key"] != created["key"]
    until = datetime.fromisoformat(rotated["former_secret_until"])
    assert timedelta(hours=23) < until - datetime.now(UTC) <= timedelta(hours=24)
    assert {name: rotated[name] for name in ("id", "rights", "tables", "expires_at")} == {
        name: created[name] for name in ("id", "rights", "tables", "expires_at")
    }
    with Gateway.at(gateway.address, rotated["key"]) as client:
        again = client.post("/v1/changes/arcion", json=body, headers=numbered)
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json() == first.json() | {"replayed": True}


@pytest.mark.parametrize("overlap", [-1, 30 * 86_400 + 1, 0.5, "long", None])
def test_an_overlap_that_makes_no_sense_rotates_nothing(gateway: Gateway, overlap: Any) -> None:
    created = gateway.new_key("read")
    wanted = {"overlap_seconds": overlap}
    problem(gateway.post(f"/v1/keys/{created['id']}/rotate", json=wanted), 400, "bad_request")
    with Gateway.at(gateway.address, created["key"]) as client:
        assert client.get("/v1/tables").status_code == 200
    assert gateway.listed_keys()[0]["former_secret_until"] is None


@pytest.mark.parametrize("overlap", [60, 60.0, 0], ids=["60", "60.0", "0"])
def test_a_whole_number_is_one_however_json_writes_it(gateway: Gateway, overlap: float) -> None:
    created = gateway.new_key("read")
    rotated = gateway.post(f"/v1/keys/{created['id']}/rotate", json={"overlap_seconds": overlap})
    assert rotated.status_code == 200
    assert (rotated.json()["former_secret_until"] is None) is (overlap == 0)


def test_a_key_says_when_it_was_last_used(gateway: Gateway, client_with: ClientWith) -> None:
    def last_used() -> str | None:
        used: str | None = gateway.listed_keys()[0]["last_used_at"]
        return used

    client = client_with("read")
    before = datetime.now(UTC)
    assert last_used() is None
    client.get("/v1/tables").raise_for_status()
    used = wait_until(last_used, within=30, what="the use is written")
    assert before <= datetime.fromisoformat(used) <= datetime.now(UTC)


def test_the_command_rotates_and_lists_keys(gateway: Gateway, terminal: Terminal) -> None:
    created = gateway.new_key("read")
    ended = terminal.succeed("keys", "rotate", created["id"], "--overlap", "60")
    rotated = ended.output.removesuffix("\n")
    assert rotated.startswith(f"mg_{created['id']}_")
    with Gateway.at(gateway.address, rotated) as client:
        client.get("/v1/tables").raise_for_status()
    [listed] = json.loads(terminal.succeed("keys", "list", "--json").output)
    until = listed["former_secret_until"]
    assert (listed["id"], until[-1]) == (created["id"], "Z")
    assert ended.errors == f"the former secret works until {until[:10]} {until[11:19]} UTC\n"
    assert created["id"] in terminal.succeed("keys", "list").output
    at_once = terminal.succeed("keys", "rotate", created["id"], "--overlap", "0")
    assert at_once.errors == "the former secret no longer works\n"


def test_a_list_without_keys_says_so_and_names_the_key_of_the_settings(gateway: Gateway, terminal: Terminal) -> None:
    admin_id = ADMIN_KEY.split("_")[1]
    assert gateway.get("/v1/keys").json() == {"keys": [], "settings_key_id": admin_id}
    first, second = terminal.succeed("keys", "list").output.splitlines()
    assert first.startswith("no keys are stored")
    assert second.startswith(f"the key {admin_id} of MIRRORGATE_ADMIN_KEY is not stored")
    gateway.new_key("read")
    assert "no keys are stored" not in terminal.succeed("keys", "list").output


def test_who_did_something_has_the_name_of_the_key_also_after_it_was_deleted(
    gateway: Gateway, terminal: Terminal
) -> None:
    wanted = ["--name", "orders CDC", "--rights", "admin", "--tables", "sales.*, t"]
    key = terminal.succeed("keys", "create", *wanted).output.strip()
    key_id = key.split("_")[1]
    gateway.register("t", {"id": "int64"}, ["id"], dead_letters="accept").raise_for_status()
    with Gateway.at(gateway.address, key) as client:
        client.post("/v1/tables/t/pause", params={"generation": 1}).raise_for_status()
        client.rows("t", {"id": "x"}, on_reject="dead_letter").raise_for_status()
    [letter] = gateway.letters("t")
    assert (letter["key_id"], letter["key_name"], letter["settled_by_name"]) == (key_id, "orders CDC", None)
    gateway.delete(f"/v1/tables/t/dead-letters/{letter['id']}").raise_for_status()
    [letter] = gateway.letters("t")
    assert letter["settled_by_name"] == "MIRRORGATE_ADMIN_KEY"
    assert "orders CDC" in terminal.succeed("keys", "list").output

    terminal.succeed("keys", "rename", key_id, "orders")
    for command in ("delete", "rotate"):
        assert terminal.run("keys", command, f"{key_id}?").status == 1
    terminal.succeed("keys", "delete", key_id)
    assert terminal.succeed("tables", "events", "t").output.count(f"orders ({key_id})") == 1
    [event] = gateway.audit(subject="orders", outcome="done")
    assert (event["action"], event["subject"], event["subject_name"]) == ("pause", key_id, "orders")
    assert f"orders ({key_id})" in terminal.succeed("audit", "--subject", "orders").output
    details = {event["action"]: event["details"] for event in gateway.audit()}
    assert details["create_key"]["name"] == "orders CDC"
    assert details["update_key"] == {"key": key_id, "name": "orders"}


def test_a_name_can_be_changed_and_taken_away_and_other_changes_keep_it(gateway: Gateway) -> None:
    created = gateway.new_key("read", name="ERP – Köln")
    assert created["name"] == "ERP – Köln"
    path = f"/v1/keys/{created['id']}"
    assert gateway.patch(path, json={"requests_per_second": 5}).json()["name"] == "ERP – Köln"
    renamed = gateway.patch(path, json={"name": "ERP"}).json()
    assert (renamed["name"], renamed["requests_per_second"]) == ("ERP", 5)
    problem(gateway.patch(path, json={"name": ""}), 400, "bad_request")
    problem(gateway.patch(path, json={"options": {"reload": "upsert"}}), 400, "bad_request")  # which a key has not
    assert gateway.patch(path, json={"name": None}).json()["name"] is None
    problem(gateway.patch("/v1/keys/none", json={"name": "x"}), 404, "unknown_key")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def authenticator(engine: sa.Engine, clock: Clock) -> Iterator[Authenticator]:
    sql.call(engine, insert_key, "0011aabb", hash_secret(SECRET), (Right.READ,), ("*",), TOMORROW)
    yield Authenticator(engine, ADMIN_KEY, AuditWriter(engine), clock=clock)


KEY = format_key("0011aabb", SECRET)
READER = Credential("0011aabb", (Grant(frozenset({Right.READ}), ("*",)),))


@pytest.mark.parametrize(
    "end",
    [
        lambda connection: delete_key(connection, "0011aabb"),
        lambda connection: connection.execute(sa.text("UPDATE mirrorgate.api_keys SET expires_at = now()")),
        lambda connection: rotate_key(connection, "0011aabb", hash_secret("y" * 43), 0),
    ],
    ids=["deleted", "expired", "rotated without overlap"],
)
def test_an_ended_secret_works_until_its_cache_time_is_over_and_no_longer(
    authenticator: Authenticator, engine: sa.Engine, clock: Clock, end: Callable[[sa.Connection], object]
) -> None:
    assert authenticator.credential(KEY) == READER
    sql.call(engine, end)
    clock.now += CACHE_SECONDS
    assert authenticator.credential(KEY) == READER
    clock.now += 0.1
    with rejected(Code.UNAUTHENTICATED):
        authenticator.credential(KEY)


def test_a_remembered_key_is_not_looked_up_again_and_its_secret_is_still_checked(
    authenticator: Authenticator, engine: sa.Engine, clock: Clock
) -> None:
    with sql.counted(engine, "SELECT k.key_id") as selects:
        authenticator.credential(KEY)
        authenticator.credential(KEY)
        assert len(selects) == 1
        for _ in range(10):  # a wrong secret may be a new one, but not so often
            with rejected():
                authenticator.credential(KEY[:-1] + "y")
        assert len(selects) == 2
        clock.now += MIN_RECHECK_SECONDS
        with rejected():
            authenticator.credential(KEY[:-1] + "y")
    assert len(selects) == 3


def test_a_remembered_key_is_taken_without_a_question_to_the_database_and_nothing_else_is(
    authenticator: Authenticator, engine: sa.Engine, clock: Clock
) -> None:
    with sql.counted(engine, "SELECT") as selects:
        assert authenticator.cached_credential(KEY) is None
        assert authenticator.cached_credential(ADMIN_KEY) is not None
        for rejectable in (None, "mg_x", ADMIN_KEY + "x"):
            with rejected():
                authenticator.cached_credential(rejectable)
    assert selects == []
    authenticator.credential(KEY)
    with sql.counted(engine, "SELECT") as selects:
        assert authenticator.cached_credential(KEY) == READER
        assert authenticator.cached_credential(KEY[:-1] + "y") is None
        clock.now += CACHE_SECONDS
        assert authenticator.cached_credential(KEY) is None
    assert selects == []


def test_a_key_that_was_taken_before_is_asked_for_again_once_another_call_has_found_it_gone(
    authenticator: Authenticator, engine: sa.Engine, clock: Clock
) -> None:
    authenticator.credential(KEY)
    assert authenticator.cached_credential(KEY) == authenticator.cached_credential(KEY) == READER
    sql.run(engine, "DELETE FROM mirrorgate.api_keys")
    with rejected():
        authenticator.credential(KEY[:-1] + "y")
    assert authenticator.cached_credential(KEY) is None
    with rejected():
        authenticator.credential(KEY)


def test_a_new_secret_works_at_once_where_the_former_one_is_remembered(
    authenticator: Authenticator, engine: sa.Engine
) -> None:
    authenticator.credential(KEY)
    sql.call(engine, rotate_key, "0011aabb", hash_secret("y" * 43), 3600)
    for key in (format_key("0011aabb", "y" * 43), KEY):
        assert authenticator.credential(key) == READER


def test_a_key_created_after_it_was_tried_works_within_the_cache_time(
    authenticator: Authenticator, engine: sa.Engine, clock: Clock
) -> None:
    late = format_key("ccddeeff", SECRET)
    with rejected():
        authenticator.credential(late)
    sql.call(engine, insert_key, "ccddeeff", hash_secret(SECRET), (Right.READ,), ("*",), None)
    clock.now += CACHE_SECONDS + 0.1
    assert authenticator.credential(late).subject == "ccddeeff"


def test_the_key_of_the_settings_needs_no_database(authenticator: Authenticator, engine: sa.Engine) -> None:
    with sql.counted(engine, "SELECT") as selects:
        assert authenticator.credential(ADMIN_KEY).acting_by(Right.ADMIN)
        with rejected():
            authenticator.credential(ADMIN_KEY + "x")
    assert selects == []


def test_ids_that_no_key_has_cost_little_and_take_no_place_of_keys(gateway: Gateway) -> None:
    known, unseen = gateway.new_key("read"), gateway.new_key("read")
    clock = Clock()
    authenticator = Authenticator(gateway.engine, None, AuditWriter(gateway.engine), signing_key="s" * 32, clock=clock)
    assert authenticator.credential(known["key"]).subject == known["id"]
    overloaded = 0
    with sql.counted(gateway.engine, "SELECT") as queries:
        for number in range(MAX_CACHED_KEYS + 2_000):
            try:
                assert authenticator.signer(f"{number:032x}") is None
            except TemporarilyUnavailable:
                overloaded += 1
    assert len([query for query in queries if "api_keys" in query]) == MAX_UNKNOWN_LOOK_UPS + 1
    assert overloaded == MAX_CACHED_KEYS + 2_000 - MAX_UNKNOWN_LOOK_UPS
    assert authenticator.cached_credential(known["key"]) is not None  # no stranger drives it out
    assert authenticator.credential(unseen["key"]).subject == unseen["id"]
    new = gateway.new_key("read")
    with pytest.raises(TemporarilyUnavailable):
        authenticator.credential(new["key"])  # the ids were read before it was created
    clock.now += IDS_SECONDS + 0.1
    assert authenticator.credential(new["key"]).subject == new["id"]


@pytest.fixture
def tables(gateway: Gateway) -> Gateway:
    """Give the tables `sales.orders` and `hr.people`, a batch in each."""
    for table in ("sales.orders", "hr.people"):
        gateway.register(table, {"id": "int64"}, ["id"])
        gateway.arcion(insert(table, id="1"))
    return gateway


def test_listings_and_metrics_show_only_the_keys_tables(tables: Gateway, client_with: ClientWith) -> None:
    client = client_with("read", tables=["HR.*"])
    assert [table["table"] for table in client.get("/v1/tables").json()["tables"]] == ["hr.people"]
    metrics = client.get("/metrics").text
    assert 'mirrorgate_lag_batches{table="hr.people"} 1.0' in metrics
    assert "sales" not in metrics


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        f"Basic {ADMIN_KEY}",
        ADMIN_KEY,
        f"Bearer {ADMIN_KEY}x",
        f"Bearer {ADMIN_KEY[:-1]}",
        f"Bearer {ADMIN_KEY} {ADMIN_KEY}",
        "Bearer mg_00000000ffffffff_" + "x" * 43,
        "Bearer mg_\xff",
        "Bearer " + "x" * 5000,
    ],
)
def test_anything_but_a_valid_key_is_rejected_without_repeating_it(gateway: Gateway, authorization: str) -> None:
    response = gateway.get("/v1/tables", headers=[(b"Authorization", authorization.encode("latin-1"))])
    problem(response, 401, "unauthenticated")
    assert (
        response.headers["www-authenticate"] == 'Bearer realm="mirrorgate", Basic realm="mirrorgate", charset="UTF-8"'
    )
    assert ADMIN_KEY not in response.text


@pytest.mark.parametrize("authorization", [f"bearer {ADMIN_KEY}", f"BEARER {ADMIN_KEY}"])
def test_the_scheme_may_have_any_letter_case(gateway: Gateway, authorization: str) -> None:
    assert gateway.get("/v1/tables", headers={"Authorization": authorization}).status_code == 200
