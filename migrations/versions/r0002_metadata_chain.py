"""Create the metadata chain of each table generation.

Kind: expand.

Each block refers to its predecessor by number *and* hash, so the database rejects a fork or a hole.
"""

from alembic import op

revision = "r0002"
down_revision = "r0001"

STATEMENTS = """
CREATE TABLE mirrorgate.metadata_blocks (
    table_id bigint NOT NULL REFERENCES mirrorgate.tables,
    generation integer NOT NULL,
    sequence_number bigint NOT NULL CHECK (sequence_number >= 0),
    block_hash text NOT NULL CHECK (block_hash ~ '^[0-9a-f]{64}$'),
    previous_hash text,
    system_time timestamptz NOT NULL,
    event jsonb NOT NULL,
    preceding_number bigint GENERATED ALWAYS AS (nullif(sequence_number, 0) - 1) STORED,
    PRIMARY KEY (table_id, generation, sequence_number),
    UNIQUE (table_id, generation, sequence_number, block_hash),
    FOREIGN KEY (table_id, generation, preceding_number, previous_hash)
        REFERENCES mirrorgate.metadata_blocks (table_id, generation, sequence_number, block_hash),
    CHECK ((previous_hash IS NULL) = (sequence_number = 0)),
    CHECK ((sequence_number = 0) = (event ->> 'kind' = 'Seed'))
);
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
