"""The tool's own mark of the last change in each staged block, kept as it was written.

Kind: expand.
"""

from alembic import op

revision = "r0006"
down_revision = "r0005"


def upgrade() -> None:
    op.execute("ALTER TABLE mirrorgate.staged_blocks ADD COLUMN source_position text")
