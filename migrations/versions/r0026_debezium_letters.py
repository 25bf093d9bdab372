"""Keep dead letters of Debezium's events.

Kind: expand. Programs of r0024 continue to work, but cannot read dead letters in the new format.
"""

from alembic import op

revision = "r0026"
down_revision = "r0024"

STATEMENTS = """
ALTER TABLE mirrorgate.dead_letters DROP CONSTRAINT dead_letters_format_check;
ALTER TABLE mirrorgate.dead_letters ADD CONSTRAINT dead_letters_format_check
    CHECK (format IN ('arcion', 'arcion_csv', 'replicate', 'debezium', 'rows', 'rows_csv'));
COMMENT ON COLUMN mirrorgate.dead_letters.format IS
    'Format of the message: arcion, arcion_csv, replicate, debezium, rows or rows_csv.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
