"""Add rate limits of API keys.

Kind: expand. Programs of r0013 continue to work: they neither set nor enforce limits.
"""

from alembic import op

revision = "r0014"
down_revision = "r0013"

STATEMENTS = """
ALTER TABLE mirrorgate.api_keys
    ADD COLUMN requests_per_second double precision CHECK (requests_per_second > 0),
    ADD COLUMN bytes_per_second bigint CHECK (bytes_per_second > 0);
COMMENT ON COLUMN mirrorgate.api_keys.requests_per_second IS
    'What an API process takes of this key; null: what its settings say.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
