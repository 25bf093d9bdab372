"""Add how far the clock of each drain is from that of the database.

Kind: expand. Programs of r0014 continue to work and report no clock.
"""

from alembic import op

revision = "r0015"
down_revision = "r0014"


def upgrade() -> None:
    """Apply the revision."""
    op.execute("ALTER TABLE mirrorgate.workers ADD COLUMN clock_behind_seconds double precision")
