"""API keys: only hashes of their secrets are stored.

A key has one newest secret, in its own row. A rotation makes that one a former secret, which goes on working for the
overlap; whatever belongs to the key (rights, tables, receipts, producers) belongs to its id and stays.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from app.domain.access.rate_limit import NO_LIMITS, RateLimits
from app.domain.access.rights import Credential, Grant, Right

INSERT_KEY = sa.text("""
    INSERT INTO mirrorgate.api_keys (key_id, secret_hash, rights, table_patterns, expires_at, requests_per_second,
        bytes_per_second)
    VALUES (:key_id, :secret_hash, :rights, :table_patterns, :expires_at, :requests_per_second, :bytes_per_second)""")

_KEYS = """
    SELECT k.key_id, k.rights, k.table_patterns, k.created_at, k.expires_at, k.last_used_at,
        k.requests_per_second, k.bytes_per_second, k.expires_at IS NOT NULL AND k.expires_at <= now() AS has_expired,
        k.secret_hash, former.secret_hashes, former.valid_until
    FROM mirrorgate.api_keys k
    LEFT JOIN LATERAL (
        SELECT array_agg(secret_hash) AS secret_hashes, max(valid_until) AS valid_until
        FROM mirrorgate.former_key_secrets WHERE key_id = k.key_id AND valid_until > now()) former ON true"""

SELECT_KEYS = sa.text(f"{_KEYS} ORDER BY k.created_at, k.key_id")

SELECT_KEY = sa.text(f"{_KEYS} WHERE k.key_id = :key_id")

LOCK_KEY = sa.text("SELECT FROM mirrorgate.api_keys WHERE key_id = :key_id FOR UPDATE")

SHORTEN_OVERLAPS = sa.text("""
    UPDATE mirrorgate.former_key_secrets SET valid_until = least(valid_until, now() + make_interval(secs => :seconds))
    WHERE key_id = :key_id""")

KEEP_SECRET = sa.text("""
    INSERT INTO mirrorgate.former_key_secrets (key_id, secret_hash, valid_until)
    SELECT key_id, secret_hash, now() + make_interval(secs => :seconds) FROM mirrorgate.api_keys
    WHERE key_id = :key_id""")

END_OVERLAPS = sa.text("""
    DELETE FROM mirrorgate.former_key_secrets WHERE key_id = :key_id AND valid_until <= now()""")

SET_SECRET = sa.text("UPDATE mirrorgate.api_keys SET secret_hash = :secret_hash WHERE key_id = :key_id")

SET_LIMITS = sa.text("""
    UPDATE mirrorgate.api_keys SET requests_per_second = :requests_per_second, bytes_per_second = :bytes_per_second
    WHERE key_id = :key_id""")

DELETE_KEY = sa.text("DELETE FROM mirrorgate.api_keys WHERE key_id = :key_id")

NOTE_USE = sa.text("""
    UPDATE mirrorgate.api_keys SET last_used_at = clock_timestamp() WHERE key_id = :key_id""")

PURGE_FORMER_SECRETS = sa.text("DELETE FROM mirrorgate.former_key_secrets WHERE valid_until <= now()")

COUNT_VALID_KEYS = sa.text("""
    SELECT count(*) FROM mirrorgate.api_keys WHERE expires_at IS NULL OR expires_at > now()""")


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as the database has it."""

    key_id: str
    secret_hashes: tuple[bytes, ...]
    """Of the secrets that are accepted now, the newest first; none once the key has expired."""
    rights: tuple[Right, ...]
    table_patterns: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    """Written at most once a minute by each API process."""
    former_secret_until: datetime | None
    """When the last former secret stops working; None where the newest one alone is accepted."""
    limits: RateLimits = NO_LIMITS

    @property
    def credential(self) -> Credential:
        return Credential(self.key_id, (Grant(frozenset(self.rights), self.table_patterns),), self.limits)


def insert_key(
    connection: sa.Connection,
    key_id: str,
    secret_hash: bytes,
    rights: tuple[Right, ...],
    table_patterns: tuple[str, ...],
    expires_at: datetime | None,
    limits: RateLimits = NO_LIMITS,
) -> None:
    """Store a new key."""
    connection.execute(
        INSERT_KEY,
        {
            "key_id": key_id,
            "secret_hash": secret_hash,
            "rights": [str(right) for right in rights],
            "table_patterns": list(table_patterns),
            "expires_at": expires_at,
            **_columns(limits),
        },
    )


def find_key(connection: sa.Connection, key_id: str) -> StoredKey | None:
    """The key with this id; an expired one has no secret that is accepted."""
    row = connection.execute(SELECT_KEY, {"key_id": key_id}).one_or_none()
    return _stored(row) if row else None


def list_keys(connection: sa.Connection) -> list[StoredKey]:
    """All keys, oldest first."""
    return [_stored(row) for row in connection.execute(SELECT_KEYS)]


def rotate_key(connection: sa.Connection, key_id: str, secret_hash: bytes, overlap_seconds: int) -> StoredKey | None:
    """Give a key a new secret; when the overlap is over no other one works. None for no key, or one that has expired.

    Two rotations at the same time take turns: the second one's secret is the newest.
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


def set_limits(connection: sa.Connection, key_id: str, limits: RateLimits) -> StoredKey | None:
    """Give a key other rate limits, which hold within seconds in every API process. None for no such key."""
    if connection.execute(SET_LIMITS, {"key_id": key_id, **_columns(limits)}).rowcount == 0:
        return None
    return _found(connection, key_id)


def delete_key(connection: sa.Connection, key_id: str) -> bool:
    """Remove a key and all its secrets for good; False when there is none."""
    return connection.execute(DELETE_KEY, {"key_id": key_id}).rowcount == 1


def note_use(connection: sa.Connection, key_ids: Collection[str]) -> None:
    """These keys were used just now; in one order, so that no two processes wait for each other."""
    if key_ids:
        connection.execute(NOTE_USE, [{"key_id": key_id} for key_id in sorted(key_ids)])


def purge_former_secrets(connection: sa.Connection) -> None:
    """Delete former secrets whose overlap is over."""
    connection.execute(PURGE_FORMER_SECRETS)


def count_valid_keys(connection: sa.Connection) -> int:
    """How many keys would be accepted now."""
    return int(connection.execute(COUNT_VALID_KEYS).scalar_one())


def _found(connection: sa.Connection, key_id: str) -> StoredKey:
    key = find_key(connection, key_id)
    assert key is not None
    return key


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
    )
