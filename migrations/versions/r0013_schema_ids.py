"""An index of the schema ids that a table's Replicate metadata had before its current one.

Kind: expand. Data messages of an earlier version find their table by it.
"""

from alembic import op

revision = "r0013"
down_revision = "r0012"

STATEMENTS = """
CREATE INDEX tables_by_earlier_replicate_schema ON mirrorgate.tables
    USING gin (jsonb_path_query_array(replicate_metadata, '$.earlier[*].schema_id'));
"""


def upgrade() -> None:
    op.execute(STATEMENTS)
