"""Add whether sources feed a table by its name in any letter case.

Kind: expand. They did so before this revision, and still do for the tables that exist. Programs of r0016 register
tables without the column, which then is false for newer programs.
"""

from alembic import op

revision = "r0017"
down_revision = "r0016"

STATEMENTS = """
ALTER TABLE mirrorgate.tables ADD COLUMN any_letter_case boolean NOT NULL DEFAULT false;
UPDATE mirrorgate.tables SET any_letter_case = true WHERE state <> 'dropped';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
