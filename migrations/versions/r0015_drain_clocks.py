"""How far the clock of each drain is from that of the database.

Kind: expand. Programs of r0014 go on, and say nothing of their clock.
"""

from alembic import op

revision = "r0015"
down_revision = "r0014"


def upgrade() -> None:
    op.execute("ALTER TABLE mirrorgate.workers ADD COLUMN clock_behind_seconds double precision")
