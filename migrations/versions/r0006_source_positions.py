"""Add the source tool's own mark of the last change in each staged block, and the place of the row marker in files.

Kind: expand. The first program that starts on the database decides where the marker is; later ones keep it.
"""

from alembic import op

revision = "r0006"
down_revision = "r0005"


def upgrade() -> None:
    """Apply the revision."""
    op.execute("ALTER TABLE mirrorgate.staged_blocks ADD COLUMN source_position text")
    op.execute("ALTER TABLE mirrorgate.installation ADD COLUMN marker_first boolean")
