"""Store how far each producer is in its source, in the transaction of the data.

Kind: expand. Programs of r0023 continue to work, but ignore the header: they accept such a request and leave the
position unchanged. Send no positions while they run.

The database bounds the text, which a producer chooses.
"""

from alembic import op

revision = "r0024"
down_revision = "r0023"

STATEMENTS = """
ALTER TABLE mirrorgate.producers ADD COLUMN position text
    CONSTRAINT position_is_bounded CHECK (octet_length(position) BETWEEN 1 AND 256);
COMMENT ON COLUMN mirrorgate.producers.position IS
    'How far its last accepted request with a position reaches in its source, as the producer wrote it.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
