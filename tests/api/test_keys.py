"""API keys: create, list, delete, expire."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from app.api.auth import CACHE_SECONDS, Authenticator
from app.domain.access import Principal, Right
from app.domain.api_key import format_key, hash_secret
from app.errors import Code
from app.staging.api_keys import delete_key, insert_key
from tests.api.calls import ADMIN_KEY, Gateway, problem
from tests.support import sql
from tests.support.refusals import refused

TOMORROW = datetime.now(UTC) + timedelta(days=1)
SECRET = "x" * 43


def create(gateway: Gateway, **wanted: Any) -> dict[str, Any]:
    response = gateway.post("/v1/keys", json=wanted)
    assert response.status_code == 201
    created: dict[str, Any] = response.json()
    return created


def test_a_created_key_works_and_its_secret_is_shown_once(gateway: Gateway, api_address: str) -> None:
    created = create(gateway, rights=["read", "ingest"], tables=["sales.*"], expires_at=TOMORROW.isoformat())
    assert created["key"].startswith(f"mg_{created['id']}_")
    with Gateway.at(api_address, created["key"]) as client:
        assert client.get("/v1/tables").status_code == 200
    listed = gateway.get("/v1/keys")
    [key] = listed.json()["keys"]
    assert datetime.fromisoformat(key.pop("created_at")) <= datetime.now(UTC)
    assert datetime.fromisoformat(key.pop("expires_at")) == TOMORROW
    assert key == {"id": created["id"], "rights": ["read", "ingest"], "tables": ["sales.*"]}
    assert created["key"].rpartition("_")[2] not in listed.text


def test_a_key_holds_for_every_table_and_forever_unless_told_otherwise(gateway: Gateway) -> None:
    created = create(gateway, rights=["read"])
    assert (created["tables"], created["expires_at"]) == (["*"], None)


def test_two_keys_differ_in_id_and_secret(gateway: Gateway) -> None:
    keys = [create(gateway, rights=["read"])["key"].split("_", 2) for _ in range(2)]
    assert all(len({*parts}) == 2 for parts in list(zip(*keys, strict=True))[1:])


def test_a_deleted_key_is_gone(gateway: Gateway) -> None:
    created = create(gateway, rights=["read"])
    assert gateway.delete(f"/v1/keys/{created['id']}").status_code == 204
    assert gateway.get("/v1/keys").json() == {"keys": []}
    problem(gateway.delete(f"/v1/keys/{created['id']}"), 404, "unknown_key")


@pytest.mark.parametrize("key_id", ["none", "%00", "%ff", "0000000000000001", "a' OR true--"])
def test_a_key_that_does_not_exist_cannot_be_deleted(gateway: Gateway, key_id: str) -> None:
    problem(gateway.delete(f"/v1/keys/{key_id}"), 404, "unknown_key")


@pytest.mark.parametrize(
    ("wanted", "pointer"),
    [
        ({}, "/rights"),
        ({"rights": []}, "/rights"),
        ({"rights": ["everything"]}, "/rights/0"),
        ({"rights": ["read"], "tables": []}, "/tables"),
        ({"rights": ["read"], "tables": [""]}, "/tables/0"),
        ({"rights": ["read"], "tables": ["a\x00"]}, "/tables/0"),
        ({"rights": ["read"], "tables": ["x" * 301]}, "/tables/0"),
        ({"rights": ["read"], "expires_at": "tomorrow"}, "/expires_at"),
        ({"rights": ["read"], "expires_at": 32503680000}, "/expires_at"),
        ({"rights": ["read"], "expires_at": "32503680000"}, "/expires_at"),
        ({"rights": ["read"], "expires_at": "2999-01-01T00:00:00"}, "/expires_at"),
        ({"rights": ["read"], "expires_at": "2020-01-01T00:00:00Z"}, "/expires_at"),
        ({"rights": ["read"], "expires_at": "9999-12-31T23:59:59-14:00"}, "/expires_at"),
        ({"rights": ["read"], "name": "mine"}, "/name"),
    ],
)
def test_a_key_that_makes_no_sense_is_not_created(gateway: Gateway, wanted: dict[str, Any], pointer: str) -> None:
    details = problem(gateway.post("/v1/keys", json=wanted), 400, "bad_request")
    assert [error["pointer"] for error in details["errors"]] == [pointer]
    assert gateway.get("/v1/keys").json() == {"keys": []}


class Clock:
    """Seconds that pass only when a test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def authenticator(engine: sa.Engine, clock: Clock) -> Iterator[Authenticator]:
    with engine.begin() as connection:
        insert_key(connection, "0011aabb", hash_secret(SECRET), (Right.READ,), ("*",), TOMORROW)
    yield Authenticator(engine, ADMIN_KEY, clock)


KEY = format_key("0011aabb", SECRET)
READER = Principal("0011aabb", frozenset({Right.READ}), ("*",))


def test_a_deleted_key_works_until_its_cache_time_is_over_and_no_longer(
    authenticator: Authenticator, engine: sa.Engine, clock: Clock
) -> None:
    assert authenticator.principal(KEY) == READER
    with engine.begin() as connection:
        delete_key(connection, "0011aabb")
    clock.now += CACHE_SECONDS
    assert authenticator.principal(KEY) == READER
    clock.now += 0.1
    with refused() as refusal:
        authenticator.principal(KEY)
    assert refusal.code == Code.UNAUTHENTICATED


def test_an_expired_key_stops_working(authenticator: Authenticator, engine: sa.Engine, clock: Clock) -> None:
    assert authenticator.principal(KEY) == READER
    sql.run(engine, "UPDATE mirrorgate.api_keys SET expires_at = now()")
    clock.now += CACHE_SECONDS + 0.1
    with refused():
        authenticator.principal(KEY)


def test_a_remembered_key_is_not_looked_up_again_and_its_secret_is_still_checked(
    authenticator: Authenticator, engine: sa.Engine
) -> None:
    with sql.counted(engine, "SELECT key_id") as selects:
        authenticator.principal(KEY)
        authenticator.principal(KEY)
        with refused():
            authenticator.principal(KEY[:-1] + "y")
    assert len(selects) == 1


def test_a_key_created_after_it_was_tried_works_within_the_cache_time(
    authenticator: Authenticator, engine: sa.Engine, clock: Clock
) -> None:
    late = format_key("ccddeeff", SECRET)
    with refused():
        authenticator.principal(late)
    with engine.begin() as connection:
        insert_key(connection, "ccddeeff", hash_secret(SECRET), (Right.READ,), ("*",), None)
    clock.now += CACHE_SECONDS + 0.1
    assert authenticator.principal(late).key_id == "ccddeeff"


def test_the_key_of_the_settings_needs_no_database(authenticator: Authenticator, engine: sa.Engine) -> None:
    with sql.counted(engine, "SELECT") as selects:
        assert authenticator.principal(ADMIN_KEY).has(Right.ADMIN)
        with refused():
            authenticator.principal(ADMIN_KEY + "x")
    assert selects == []
