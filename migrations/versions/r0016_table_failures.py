"""Create the failures of tables whose publication fails: why, since when and how often, until the next success.

Kind: expand. Programs of r0015 neither write nor clear the rows; a drain of this revision clears them at its next
success.
"""

from alembic import op

revision = "r0016"
down_revision = "r0015"

STATEMENTS = """
CREATE TABLE mirrorgate.table_failures (
    table_id bigint PRIMARY KEY REFERENCES mirrorgate.tables,
    generation integer NOT NULL CHECK (generation >= 1),
    code text NOT NULL,
    detail text NOT NULL CHECK (octet_length(detail) <= 4096),
    remedy text NOT NULL,
    tries integer NOT NULL DEFAULT 1 CHECK (tries >= 1),
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE mirrorgate.table_failures IS 'The last failure of each table that has not been published since.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
