"""The tool's own mark of the last change in each staged block, and where landing files have the row marker.

Kind: expand. The first program that starts on the database says where the marker is; it stays there.
"""

from alembic import op

revision = "r0006"
down_revision = "r0005"


def upgrade() -> None:
    op.execute("ALTER TABLE mirrorgate.staged_blocks ADD COLUMN source_position text")
    op.execute("ALTER TABLE mirrorgate.installation ADD COLUMN marker_first boolean")
