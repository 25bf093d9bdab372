"""Add what keeps a drain from publishing anything.

Kind: expand. Programs of r0018 continue to work and do not report what they wait for.
"""

from alembic import op

revision = "r0019"
down_revision = "r0018"


def upgrade() -> None:
    """Apply the revision."""
    op.execute("ALTER TABLE mirrorgate.workers ADD COLUMN waits_for text CHECK (length(waits_for) <= 64)")
