"""Mark the backfills of row images that drains carry out, because they were asked for over HTTP.

Kind: expand. Programs of the revision before continue to work: their drains leave such a backfill alone.
"""

from alembic import op

revision = "r0041"
down_revision = "r0040"

STATEMENTS = """
ALTER TABLE mirrorgate.image_backfills ADD COLUMN by_drain boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN mirrorgate.image_backfills.by_drain IS
    'Whether the drain that owns the table carries it out, until it ends; a command does otherwise.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
