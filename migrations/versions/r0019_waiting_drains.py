"""What keeps a drain from publishing anything at all.

Kind: expand. Programs of r0018 go on, and say nothing of what they wait for.
"""

from alembic import op

revision = "r0019"
down_revision = "r0018"


def upgrade() -> None:
    op.execute("ALTER TABLE mirrorgate.workers ADD COLUMN waits_for text CHECK (length(waits_for) <= 64)")
