"""Add the current and earlier schema ids of a table's Replicate metadata, by which data messages find their tables.

Kind: expand. The column follows `replicate_metadata`, whichever program writes that. It is a column of its own because
reading an id out of the metadata of a wide table takes longer than the rest of a small request.
"""

from alembic import op

revision = "r0013"
down_revision = "r0012"

STATEMENTS = """
ALTER TABLE mirrorgate.tables ADD COLUMN replicate_schema_ids jsonb GENERATED ALWAYS AS (
    jsonb_path_query_array(replicate_metadata, '$.schema_id')
    || jsonb_path_query_array(replicate_metadata, '$.earlier[*].schema_id')) STORED;
CREATE INDEX tables_by_schema_ids ON mirrorgate.tables USING gin (replicate_schema_ids);
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
