"""API keys in Postgres: their rights, and the hashes of their secrets.

A key has one newest secret, in its own row. A rotation makes it a former secret, which is accepted until the overlap
ends. Everything else of a key (rights, tables, receipts, producers) belongs to its id and survives a rotation.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from app.domain.access.rights import NO_LIMITS, Credential, Grant, RateLimits, Right

INSERT_KEY = sa.text("""
    INSERT INTO mirrorgate.api_keys (key_id, secret_hash, rights, table_patterns, expires_at, requests_per_second,
        bytes_per_second, signing_salt)
    VALUES (:key_id, :secret_hash, :rights, :table_patterns, :expires_at, :requests_per_second, :bytes_per_second,
        :signing_salt)""")
"""Store a new key."""

_KEYS = """
    SELECT k.key_id, k.rights, k.table_patterns, k.created_at, k.expires_at, k.last_used_at,
        k.requests_per_second, k.bytes_per_second, k.expires_at IS NOT NULL AND k.expires_at <= now() AS has_expired,
        k.secret_hash, former.secret_hashes, former.valid_until, k.signing_salt, n.name
    FROM mirrorgate.api_keys k
    LEFT JOIN mirrorgate.key_names n ON n.key_id = k.key_id
    LEFT JOIN LATERAL (
        SELECT array_agg(secret_hash) AS secret_hashes, max(valid_until) AS valid_until
        FROM mirrorgate.former_key_secrets WHERE key_id = k.key_id AND valid_until > now()) former ON true"""
"""Read keys with their former secrets that are still accepted; the beginning of two statements."""

SELECT_KEYS = sa.text(f"{_KEYS} ORDER BY k.created_at, k.key_id")
"""Read all keys, oldest first."""

SELECT_KEY = sa.text(f"{_KEYS} WHERE k.key_id = :key_id")
"""Read one key."""

SELECT_KEY_IDS = sa.text("SELECT key_id FROM mirrorgate.api_keys")
"""Read the ids of all keys."""

LOCK_KEY = sa.text("SELECT FROM mirrorgate.api_keys WHERE key_id = :key_id FOR UPDATE")
"""Lock a key against a concurrent change."""

SHORTEN_OVERLAPS = sa.text("""
    UPDATE mirrorgate.former_key_secrets SET valid_until = least(valid_until, now() + make_interval(secs => :seconds))
    WHERE key_id = :key_id""")
"""Let no former secret of a key outlive the new overlap."""

KEEP_SECRET = sa.text("""
    INSERT INTO mirrorgate.former_key_secrets (key_id, secret_hash, valid_until)
    SELECT key_id, secret_hash, now() + make_interval(secs => :seconds) FROM mirrorgate.api_keys
    WHERE key_id = :key_id""")
"""Make a key's newest secret a former one."""

END_OVERLAPS = sa.text("""
    DELETE FROM mirrorgate.former_key_secrets WHERE key_id = :key_id AND valid_until <= now()""")
"""Delete the former secrets of a key whose overlap is over."""

SET_SECRET = sa.text("UPDATE mirrorgate.api_keys SET secret_hash = :secret_hash WHERE key_id = :key_id")
"""Store a key's newest secret."""

SET_LIMITS = sa.text("""
    UPDATE mirrorgate.api_keys SET requests_per_second = :requests_per_second, bytes_per_second = :bytes_per_second
    WHERE key_id = :key_id""")
"""Replace a key's rate limits."""

SET_NAME = sa.text("""
    INSERT INTO mirrorgate.key_names (key_id, name) VALUES (:key_id, :name)
    ON CONFLICT (key_id) DO UPDATE SET name = excluded.name""")
"""Give a key a name."""

DELETE_NAME = sa.text("DELETE FROM mirrorgate.key_names WHERE key_id = :key_id")
"""Take the name of a key away."""

SELECT_NAMES = sa.text("SELECT key_id, name FROM mirrorgate.key_names WHERE key_id = ANY(:key_ids)")
"""Read the names of keys, also of deleted ones."""

DELETE_KEY = sa.text("DELETE FROM mirrorgate.api_keys WHERE key_id = :key_id")
"""Delete a key, and with it its former secrets."""

NOTE_USE = sa.text("""
    UPDATE mirrorgate.api_keys SET last_used_at = clock_timestamp() WHERE key_id = :key_id""")
"""Record that a key was used now."""

PURGE_FORMER_SECRETS = sa.text("DELETE FROM mirrorgate.former_key_secrets WHERE valid_until <= now()")
"""Delete all former secrets whose overlap is over."""

COUNT_VALID_KEYS = sa.text("""
    SELECT count(*) FROM mirrorgate.api_keys WHERE expires_at IS NULL OR expires_at > now()""")
"""Count the keys that have not expired."""


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as it is stored."""

    key_id: str
    secret_hashes: tuple[bytes, ...]
    """Hashes of the secrets that are accepted now, newest first; empty once the key has expired."""
    rights: tuple[Right, ...]
    table_patterns: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    """Written at most once a minute by each API process."""
    former_secret_until: datetime | None
    """Time at which the last former secret stops working; None if only the newest secret is accepted."""
    limits: RateLimits = NO_LIMITS
    signing_salt: bytes | None = None
    """Salt from which the signing secret is derived; None if the key has none, or has expired."""
    name: str | None = None
    """Name of the key for people."""

    @property
    def credential(self) -> Credential:
        """Return the caller's credential: the key's id, rights and rate limits."""
        return Credential(self.key_id, (Grant(frozenset(self.rights), self.table_patterns),), self.limits)


def insert_key(
    connection: sa.Connection,
    key_id: str,
    secret_hash: bytes,
    rights: tuple[Right, ...],
    table_patterns: tuple[str, ...],
    expires_at: datetime | None,
    limits: RateLimits = NO_LIMITS,
    signing_salt: bytes | None = None,
    name: str | None = None,
) -> None:
    """Store a new key, which can sign bodies if it has a salt."""
    connection.execute(
        INSERT_KEY,
        {
            "key_id": key_id,
            "secret_hash": secret_hash,
            "rights": [str(right) for right in rights],
            "table_patterns": list(table_patterns),
            "expires_at": expires_at,
            "signing_salt": signing_salt,
            **_columns(limits),
        },
    )
    _set_name(connection, key_id, name)


def find_key(connection: sa.Connection, key_id: str) -> StoredKey | None:
    """Return the key with this id, or None; an expired key has no accepted secrets."""
    row = connection.execute(SELECT_KEY, {"key_id": key_id}).one_or_none()
    return _stored(row) if row else None


def list_keys(connection: sa.Connection) -> list[StoredKey]:
    """Return all keys, oldest first."""
    return [_stored(row) for row in connection.execute(SELECT_KEYS)]


def list_key_ids(connection: sa.Connection) -> frozenset[str]:
    """Return the ids of all keys, also of expired ones."""
    return frozenset(connection.execute(SELECT_KEY_IDS).scalars())


def rotate_key(connection: sa.Connection, key_id: str, secret_hash: bytes, overlap_seconds: int) -> StoredKey | None:
    """Give a key a new secret; after the overlap only this one is accepted. None for a missing or expired key.

    Concurrent rotations run one after the other; the secret of the last one is the newest.
    """
    keys = {"key_id": key_id}
    if connection.execute(LOCK_KEY, keys).first() is None:
        return None
    if not _found(connection, key_id).secret_hashes:
        return None
    connection.execute(SHORTEN_OVERLAPS, {**keys, "seconds": overlap_seconds})
    connection.execute(KEEP_SECRET, {**keys, "seconds": overlap_seconds})
    connection.execute(SET_SECRET, {**keys, "secret_hash": secret_hash})
    connection.execute(END_OVERLAPS, keys)
    return _found(connection, key_id)


def rename_key(connection: sa.Connection, key_id: str, name: str | None) -> StoredKey | None:
    """Give a key a name, or take it away; None for a missing key."""
    if connection.execute(LOCK_KEY, {"key_id": key_id}).first() is None:
        return None
    _set_name(connection, key_id, name)
    return _found(connection, key_id)


def change_limits(connection: sa.Connection, key_id: str, given: Mapping[str, float | None]) -> StoredKey | None:
    """Replace the given rate limits of a key; each API process applies them within seconds. None for a missing key.

    Concurrent changes run one after the other, so that each keeps the limits that only the other gives.
    """
    keys = {"key_id": key_id}
    if connection.execute(LOCK_KEY, keys).first() is None:
        return None
    limits = replace(_found(connection, key_id).limits, **given)
    connection.execute(SET_LIMITS, keys | _columns(limits))
    return _found(connection, key_id)


def key_names(connection: sa.Connection, key_ids: Collection[str]) -> Mapping[str, str]:
    """Return the names of those among these ids that are of keys with a name, also of deleted ones."""
    return {row.key_id: row.name for row in connection.execute(SELECT_NAMES, {"key_ids": [*key_ids]})}


def delete_key(connection: sa.Connection, key_id: str) -> bool:
    """Delete a key and all its secrets, but not its name; return false for a missing key."""
    return connection.execute(DELETE_KEY, {"key_id": key_id}).rowcount == 1


def note_use(connection: sa.Connection, key_ids: Collection[str]) -> None:
    """Record that these keys were used now; in one order, so that processes never deadlock."""
    if key_ids:
        connection.execute(NOTE_USE, [{"key_id": key_id} for key_id in sorted(key_ids)])


def count_valid_keys(connection: sa.Connection) -> int:
    """Return the number of keys that have not expired."""
    return int(connection.execute(COUNT_VALID_KEYS).scalar_one())


def _found(connection: sa.Connection, key_id: str) -> StoredKey:
    key = find_key(connection, key_id)
    assert key is not None
    return key


def _set_name(connection: sa.Connection, key_id: str, name: str | None) -> None:
    if name is None:
        connection.execute(DELETE_NAME, {"key_id": key_id})
    else:
        connection.execute(SET_NAME, {"key_id": key_id, "name": name})


def _columns(limits: RateLimits) -> dict[str, float | None]:
    return {"requests_per_second": limits.requests_per_second, "bytes_per_second": limits.bytes_per_second}


def _stored(row: sa.Row[tuple[object, ...]]) -> StoredKey:
    accepted = () if row.has_expired else (row.secret_hash, *(row.secret_hashes or ()))
    return StoredKey(
        row.key_id,
        tuple(map(bytes, accepted)),
        tuple(Right(right) for right in row.rights),
        tuple(row.table_patterns),
        row.created_at,
        row.expires_at,
        row.last_used_at,
        None if row.has_expired else row.valid_until,
        RateLimits(row.requests_per_second, row.bytes_per_second),
        None if row.has_expired or row.signing_salt is None else bytes(row.signing_salt),
        row.name,
    )
