"""API keys: only a hash of the secret is stored."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from app.domain.access import Principal, Right

INSERT_KEY = sa.text("""
    INSERT INTO mirrorgate.api_keys (key_id, secret_hash, rights, table_patterns, expires_at)
    VALUES (:key_id, :secret_hash, :rights, :table_patterns, :expires_at)""")

SELECT_KEYS = sa.text("""
    SELECT key_id, secret_hash, rights, table_patterns, created_at, expires_at FROM mirrorgate.api_keys
    ORDER BY created_at, key_id""")

SELECT_VALID_KEY = sa.text("""
    SELECT key_id, secret_hash, rights, table_patterns, created_at, expires_at FROM mirrorgate.api_keys
    WHERE key_id = :key_id AND (expires_at IS NULL OR expires_at > now())""")

DELETE_KEY = sa.text("DELETE FROM mirrorgate.api_keys WHERE key_id = :key_id")

COUNT_VALID_KEYS = sa.text("""
    SELECT count(*) FROM mirrorgate.api_keys WHERE expires_at IS NULL OR expires_at > now()""")


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as the database has it."""

    key_id: str
    secret_hash: bytes
    rights: tuple[Right, ...]
    table_patterns: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None

    @property
    def principal(self) -> Principal:
        return Principal(self.key_id, frozenset(self.rights), self.table_patterns)


def insert_key(
    connection: sa.Connection,
    key_id: str,
    secret_hash: bytes,
    rights: tuple[Right, ...],
    table_patterns: tuple[str, ...],
    expires_at: datetime | None,
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
        },
    )


def find_valid_key(connection: sa.Connection, key_id: str) -> StoredKey | None:
    """The key with this id unless it has expired."""
    row = connection.execute(SELECT_VALID_KEY, {"key_id": key_id}).one_or_none()
    return _stored(row) if row else None


def list_keys(connection: sa.Connection) -> list[StoredKey]:
    """All keys, oldest first."""
    return [_stored(row) for row in connection.execute(SELECT_KEYS)]


def delete_key(connection: sa.Connection, key_id: str) -> bool:
    """Remove a key for good; False when there is none."""
    return connection.execute(DELETE_KEY, {"key_id": key_id}).rowcount == 1


def count_valid_keys(connection: sa.Connection) -> int:
    """How many keys would be accepted now."""
    return int(connection.execute(COUNT_VALID_KEYS).scalar_one())


def _stored(row: sa.Row[tuple[object, ...]]) -> StoredKey:
    return StoredKey(
        row.key_id,
        bytes(row.secret_hash),
        tuple(Right(right) for right in row.rights),
        tuple(row.table_patterns),
        row.created_at,
        row.expires_at,
    )
