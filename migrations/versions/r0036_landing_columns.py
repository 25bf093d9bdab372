"""Store how the columns of landing files differ from those of their source, for audit columns and transforms.

Kind: expand. Programs of the revision before continue to work with tables whose files have the columns of their source.
"""

from alembic import op

revision = "r0036"
down_revision = "r0035"

STATEMENTS = """
ALTER TABLE mirrorgate.schema_versions
    ADD COLUMN lands_as jsonb
    CONSTRAINT lands_as_is_a_schema CHECK (lands_as ?& ARRAY['columns', 'key_columns', 'bare']);
COMMENT ON COLUMN mirrorgate.schema_versions.lands_as IS
    'Columns, key columns and row marker of the landing files, if they differ from those of the source.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
