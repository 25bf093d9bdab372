"""Whether sources feed a table by its name in whatever letter case.

Kind: expand. They did so before this revision, and go on for the tables that exist. Programs of r0016 register tables
without the column, which then counts as false for newer ones.
"""

from alembic import op

revision = "r0017"
down_revision = "r0016"

STATEMENTS = """
ALTER TABLE mirrorgate.tables ADD COLUMN any_letter_case boolean NOT NULL DEFAULT false;
UPDATE mirrorgate.tables SET any_letter_case = true WHERE state <> 'dropped';
"""


def upgrade() -> None:
    op.execute(STATEMENTS)
