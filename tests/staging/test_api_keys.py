"""Stored API keys."""

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from app.domain.access import Credential, Grant, Right
from app.domain.api_key import hash_secret
from app.staging.api_keys import count_valid_keys, delete_key, find_key, insert_key, list_keys

HASH = hash_secret("secret")
TOMORROW = datetime.now(UTC) + timedelta(days=1)
YESTERDAY = datetime.now(UTC) - timedelta(days=1)


def test_a_stored_key_gives_its_principal(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        insert_key(connection, "0011aabb", HASH, (Right.READ, Right.INGEST), ("sales.*", "orders"), TOMORROW)
        stored = find_key(connection, "0011aabb")
    assert stored is not None
    grant = Grant(frozenset({Right.READ, Right.INGEST}), ("sales.*", "orders"))
    assert stored.credential == Credential("0011aabb", (grant,))
    assert (stored.secret_hashes, stored.expires_at) == ((HASH,), TOMORROW)


def test_an_expired_key_is_listed_and_found_but_has_no_secret_and_does_not_count(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        insert_key(connection, "0011aabb", HASH, (Right.READ,), ("*",), YESTERDAY)
        found = find_key(connection, "0011aabb")
        assert found is not None
        assert found.secret_hashes == ()
        assert count_valid_keys(connection) == 0
        assert [key.key_id for key in list_keys(connection)] == ["0011aabb"]


def test_keys_are_listed_oldest_first_and_deleted_once(engine: sa.Engine) -> None:
    for key_id in ("bbbbbbbb", "aaaaaaaa"):
        with engine.begin() as connection:
            insert_key(connection, key_id, HASH, (Right.ADMIN,), ("*",), None)
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
def test_a_key_without_rights_or_tables_or_of_another_form_is_refused(
    engine: sa.Engine, key_id: str, secret_hash: bytes, rights: tuple[Right, ...], patterns: tuple[str, ...]
) -> None:
    with pytest.raises(sa.exc.IntegrityError), engine.begin() as connection:
        insert_key(connection, key_id, secret_hash, rights, patterns, None)
