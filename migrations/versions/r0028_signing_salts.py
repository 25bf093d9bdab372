"""Let keys have a signing secret, for webhook senders that sign their bodies.

Kind: expand. Programs of r0027 continue to work, and reject signed requests.

The database keeps a salt only. The secret is derived from it and from MIRRORGATE_SIGNING_KEY, which is not in the
database.
"""

from alembic import op

revision = "r0028"
down_revision = "r0027"

STATEMENTS = """
ALTER TABLE mirrorgate.api_keys ADD COLUMN signing_salt bytea
    CONSTRAINT signing_salt_has_its_length CHECK (octet_length(signing_salt) = 16);
COMMENT ON COLUMN mirrorgate.api_keys.signing_salt IS
    'Random part of the signing secret of this key; NULL if its holder does not sign bodies.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
