"""The fingerprints of the secret for hashed columns: the gateway's, and that of each table.

Invariant: all live tables are hashed under one secret, also those whose masks were removed, because their files keep
the hashes. A trigger of the database gives a table with hashed columns the gateway's fingerprint when the first is
declared and when it is recreated. While no table has one, a process can record another secret. A process with another
secret than the recorded one rejects what it would hash.
"""

import secrets

import sqlalchemy as sa

from app.domain.access.mask_secret import SALT_BYTES, HashedTables, MaskSecret
from mirrorgate.errors import Code, TemporarilyUnavailable

PIN_FINGERPRINT = sa.text("UPDATE mirrorgate.installation SET mask_fingerprint = :fingerprint")
"""Record the gateway's secret."""

SELECT_FINGERPRINT = sa.text("""
    SELECT mask_fingerprint, EXISTS (
        SELECT FROM mirrorgate.tables WHERE mask_fingerprint IS NOT NULL AND state <> 'dropped') AS is_bound
    FROM mirrorgate.installation""")
"""Read the fingerprint of the gateway's secret; return True if a live table is hashed under it."""

LOCK_FINGERPRINT = sa.text("SELECT FROM mirrorgate.installation FOR UPDATE")
"""Lock the fingerprint, so that a table that is declared meanwhile is seen by the next statement."""

SELECT_HASHED_TABLES = sa.text("""
    SELECT name, mask_fingerprint FROM mirrorgate.tables
    WHERE mask_fingerprint IS NOT NULL AND state <> 'dropped'
      AND jsonb_path_exists(options, '$.masks.*.method ? (@ == "hash")')
    ORDER BY name""")
"""List the live tables that have hashed columns now."""


def record_secret(connection: sa.Connection, secret: MaskSecret) -> bool:
    """Record the secret of this process as the gateway's unless tables are hashed under one; return whether it is it.

    A process that dies before the commit records nothing.
    """
    connection.execute(LOCK_FINGERPRINT)
    recorded, is_bound = connection.execute(SELECT_FINGERPRINT).one()
    if not secret.made(recorded) and not is_bound:
        recorded = secret.fingerprint(secrets.token_bytes(SALT_BYTES))
        connection.execute(PIN_FINGERPRINT, {"fingerprint": recorded})
    return secret.made(recorded)


def pin_mask_secret(connection: sa.Connection, secret: MaskSecret) -> None:
    """Record the secret of this process as the gateway's, or require that it is the recorded one.

    A process that dies before the commit records nothing. Raises TemporarilyUnavailable `mask_secret_differs` if tables
    are hashed under another one.
    """
    if not record_secret(connection, secret):
        detail = "the gateway's hashed columns have another secret than that of this process"
        raise TemporarilyUnavailable(Code.MASK_SECRET_DIFFERS, detail)


def hashed_tables(connection: sa.Connection) -> HashedTables:
    """Return the live tables with hashed columns, and under which secrets."""
    return HashedTables({row.name: row.mask_fingerprint for row in connection.execute(SELECT_HASHED_TABLES)})
