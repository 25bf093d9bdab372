"""The fingerprints of the secret for hashed columns: the gateway's present one, and that of each table.

Invariant: all rows of a generation are hashed under one secret. A trigger of the database gives a table with hashed
columns the present fingerprint when the first is declared and when it is recreated. Otherwise the table keeps its own,
also when the masks are removed, because the files keep the hashes. A process with another secret rejects what it would
hash.
"""

import secrets

import sqlalchemy as sa

from app.domain.access.mask_secret import SALT_BYTES, HashedTables, MaskSecret
from app.errors import Code, TemporarilyUnavailable

PIN_FINGERPRINT = sa.text("""
    UPDATE mirrorgate.installation SET mask_fingerprint = :fingerprint WHERE mask_fingerprint IS NULL""")
"""Record the gateway's first secret."""

SELECT_FINGERPRINT = sa.text("SELECT mask_fingerprint FROM mirrorgate.installation")
"""Read the fingerprint of the gateway's present secret."""

CHANGE_FINGERPRINT = sa.text("UPDATE mirrorgate.installation SET mask_fingerprint = :fingerprint")
"""Record another secret for new tables and generations."""

SELECT_HASHED_TABLES = sa.text("""
    SELECT name, mask_fingerprint FROM mirrorgate.tables
    WHERE mask_fingerprint IS NOT NULL AND state <> 'dropped'
      AND jsonb_path_exists(options, '$.masks.*.method ? (@ == "hash")')
    ORDER BY name""")
"""List the live tables that have hashed columns now."""


def record_first_secret(connection: sa.Connection, secret: MaskSecret) -> None:
    """Record the secret of this process as the gateway's, unless one is recorded.

    A process that dies before the commit records nothing.
    """
    if connection.execute(SELECT_FINGERPRINT).scalar_one() is None:
        connection.execute(PIN_FINGERPRINT, {"fingerprint": secret.fingerprint(secrets.token_bytes(SALT_BYTES))})


def pin_mask_secret(connection: sa.Connection, secret: MaskSecret) -> None:
    """Record the secret of this process as the gateway's, or require that it is the recorded one.

    A process that dies before the commit records nothing. Raises TemporarilyUnavailable `mask_secret_differs` if
    another one is recorded.
    """
    record_first_secret(connection, secret)
    if not secret.made(connection.execute(SELECT_FINGERPRINT).scalar_one()):
        detail = "the gateway's hashed columns have another secret than that of this process"
        raise TemporarilyUnavailable(Code.MASK_SECRET_DIFFERS, detail)


def hashed_tables(connection: sa.Connection) -> HashedTables:
    """Return the live tables with hashed columns, and under which secrets."""
    present = connection.execute(SELECT_FINGERPRINT).scalar_one()
    rows = connection.execute(SELECT_HASHED_TABLES)
    return HashedTables(present, {row.name: row.mask_fingerprint for row in rows})


def change_mask_secret(connection: sa.Connection, secret: MaskSecret) -> HashedTables:
    """Make this the secret of hashed columns that are declared from now on, and of tables that are recreated.

    Repeating it changes nothing. Existing tables keep their secret until they are recreated. A process that dies before
    the commit changes nothing.
    """
    before = hashed_tables(connection)
    if not secret.made(before.present):
        # A change back takes the fingerprint that tables have: another one of the same secret would outdate them.
        known = next(filter(secret.made, before.by_name.values()), None)
        fingerprint = known or secret.fingerprint(secrets.token_bytes(SALT_BYTES))
        connection.execute(CHANGE_FINGERPRINT, {"fingerprint": fingerprint})
    return hashed_tables(connection)
