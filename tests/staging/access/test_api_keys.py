"""Stored API keys."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from app.domain.access.rights import Right, hash_secret
from app.staging.access.api_keys import (
    StoredKey,
    count_valid_keys,
    delete_key,
    find_key,
    insert_key,
    key_names,
    list_keys,
    rotate_key,
)
from tests.support.postgres import sql
from tests.support.postgres.retention import purge
from tests.support.waiting import wait_until

HASH = hash_secret("secret")
TOMORROW = datetime.now(UTC) + timedelta(days=1)
YESTERDAY = datetime.now(UTC) - timedelta(days=1)


def test_an_expired_key_is_listed_and_found_but_has_no_secret_and_does_not_count(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        insert_key(connection, "0011aabb", HASH, (Right.READ,), ("*",), YESTERDAY)
        found = find_key(connection, "0011aabb")
        assert found.secret_hashes == ()
        assert count_valid_keys(connection) == 0
        assert [key.key_id for key in list_keys(connection)] == ["0011aabb"]


@pytest.mark.parametrize("name", ["", "x" * 101, "a\tb", "a\x7f"])
def test_a_name_that_cannot_be_shown_is_not_stored(engine: sa.Engine, name: str) -> None:
    with pytest.raises(sa.exc.IntegrityError), engine.begin() as connection:
        insert_key(connection, "0011aabb", HASH, (Right.READ,), ("*",), None, name=name)


def test_names_outlive_their_keys_and_a_new_key_does_not_inherit_one(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        for name in ("erp", None):
            insert_key(connection, "0011aabb", HASH, (Right.READ,), ("*",), None, name=name)
            assert [key.name for key in list_keys(connection)] == [name]
            delete_key(connection, "0011aabb")
            assert key_names(connection, ["0011aabb", "drain"]) == ({} if name is None else {"0011aabb": name})


def test_keys_are_listed_oldest_first_and_deleted_once(engine: sa.Engine) -> None:
    for key_id in ("bbbbbbbb", "aaaaaaaa"):
        sql.call(engine, insert_key, key_id, HASH, (Right.ADMIN,), ("*",), None)
    with engine.begin() as connection:
        assert [key.key_id for key in list_keys(connection)] == ["bbbbbbbb", "aaaaaaaa"]
        assert count_valid_keys(connection) == 2
        assert delete_key(connection, "bbbbbbbb")
        assert not delete_key(connection, "bbbbbbbb")
        assert find_key(connection, "bbbbbbbb") is None


@pytest.mark.parametrize(
    ("key_id", "secret_hash", "rights", "patterns"),
    [
        ("not hex!", HASH, (Right.READ,), ("*",)),
        ("0011aabb", b"short", (Right.READ,), ("*",)),
        ("0011aabb", HASH, (), ("*",)),
        ("0011aabb", HASH, (Right.READ,), ()),
    ],
)
def test_a_key_without_rights_or_tables_or_of_another_form_is_rejected(
    engine: sa.Engine, key_id: str, secret_hash: bytes, rights: tuple[Right, ...], patterns: tuple[str, ...]
) -> None:
    with pytest.raises(sa.exc.IntegrityError), engine.begin() as connection:
        insert_key(connection, key_id, secret_hash, rights, patterns, None)


NEW = hash_secret("new")
NEWEST = hash_secret("newest")


def rotate(engine: sa.Engine, secret_hash: bytes, overlap_seconds: int) -> StoredKey | None:
    return sql.call(engine, rotate_key, "0011aabb", secret_hash, overlap_seconds)


@pytest.fixture
def stored_key(engine: sa.Engine) -> None:
    sql.call(engine, insert_key, "0011aabb", HASH, (Right.READ,), ("sales.*",), TOMORROW)


def secrets_of(engine: sa.Engine) -> tuple[bytes, ...]:
    key = sql.call(engine, find_key, "0011aabb")
    return key.secret_hashes


@pytest.mark.usefixtures("stored_key")
def test_a_rotated_key_has_both_secrets_until_the_overlap_ends_and_is_otherwise_the_same(engine: sa.Engine) -> None:
    before = sql.call(engine, find_key, "0011aabb")
    rotated = rotate(engine, NEW, 3600)
    assert rotated.secret_hashes == (NEW, HASH)
    assert timedelta(minutes=59) < rotated.former_secret_until - datetime.now(UTC) <= timedelta(minutes=60)
    assert replace(rotated, secret_hashes=(HASH,), former_secret_until=None) == before
    sql.run(engine, "UPDATE mirrorgate.former_key_secrets SET valid_until = now()")
    assert secrets_of(engine) == (NEW,)


@pytest.mark.usefixtures("stored_key")
def test_a_rotation_without_overlap_ends_every_other_secret_at_once(engine: sa.Engine) -> None:
    rotate(engine, NEW, 3600)
    rotated = rotate(engine, NEWEST, 0)
    assert (rotated.secret_hashes, rotated.former_secret_until) == ((NEWEST,), None)
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.former_key_secrets") == 0


@pytest.mark.usefixtures("stored_key")
def test_a_later_rotation_shortens_an_earlier_overlap_and_never_lengthens_one(engine: sa.Engine) -> None:
    rotate(engine, NEW, 3600)
    rotate(engine, NEWEST, 7200)
    ends = "SELECT round(extract(epoch FROM valid_until - now()) / 600) FROM mirrorgate.former_key_secrets ORDER BY 1"
    assert [int(tens) for (tens,) in sql.rows(engine, ends)] == [6, 12]
    rotate(engine, hash_secret("last"), 600)
    assert [int(tens) for (tens,) in sql.rows(engine, ends)] == [1, 1, 1]


@pytest.mark.usefixtures("stored_key")
def test_two_rotations_at_once_leave_one_newest_secret_and_lose_none(engine: sa.Engine) -> None:
    with ThreadPoolExecutor(2) as threads, sql.locked(engine, "SELECT FROM mirrorgate.api_keys FOR UPDATE"):
        rotations = [threads.submit(rotate, engine, secret, 3600) for secret in (NEW, NEWEST)]
        wait_until(lambda: sql.lock_waits(engine) == 2, within=30, what="both rotations wait")
    assert all(rotation.result() for rotation in rotations)
    assert {*secrets_of(engine)} == {HASH, NEW, NEWEST}


@pytest.mark.usefixtures("stored_key")
def test_an_expired_or_missing_key_is_not_rotated(engine: sa.Engine) -> None:
    sql.run(engine, "UPDATE mirrorgate.api_keys SET expires_at = now()")
    assert rotate(engine, NEW, 3600) is None
    sql.run(engine, "DELETE FROM mirrorgate.api_keys")
    assert rotate(engine, NEW, 3600) is None


@pytest.mark.usefixtures("stored_key")
def test_a_key_is_deleted_with_all_its_secrets(engine: sa.Engine) -> None:
    rotate(engine, NEW, 3600)
    assert sql.call(engine, delete_key, "0011aabb")
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.former_key_secrets") == 0


@pytest.mark.usefixtures("stored_key")
def test_retention_forgets_secrets_whose_overlap_is_over(engine: sa.Engine) -> None:
    rotate(engine, NEW, 3600)
    purge(engine)
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.former_key_secrets") == 1
    sql.run(engine, "UPDATE mirrorgate.former_key_secrets SET valid_until = now()")
    purge(engine)
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.former_key_secrets") == 0
