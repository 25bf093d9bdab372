"""Store which trace staged a block, so that the drain continues it.

Kind: expand. Programs of the revision before continue to work.

The rows are written only while traces are sent. They are kept for a day, so they refer to no block: retention need not
look for them when it deletes blocks.
"""

from alembic import op

revision = "r0031"
down_revision = "r0030"

STATEMENTS = """
CREATE TABLE mirrorgate.block_traces (
    table_id bigint NOT NULL REFERENCES mirrorgate.tables,
    generation integer NOT NULL,
    first_sequence bigint NOT NULL,
    traceparent text NOT NULL CONSTRAINT trace_context_is_w3c
        CHECK (traceparent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-01$'),
    staged_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (table_id, generation, first_sequence)
);
CREATE INDEX block_traces_by_age ON mirrorgate.block_traces (staged_at);
COMMENT ON TABLE mirrorgate.block_traces IS
    'Trace contexts of staged blocks, for the spans of the drain. Written only while traces are sent; kept for a day.';
COMMENT ON COLUMN mirrorgate.block_traces.table_id IS 'Table that the row belongs to.';
COMMENT ON COLUMN mirrorgate.block_traces.generation IS 'Generation of the table.';
COMMENT ON COLUMN mirrorgate.block_traces.first_sequence IS 'First batch sequence of the block.';
COMMENT ON COLUMN mirrorgate.block_traces.traceparent IS
    'W3C trace context of the transaction that staged the block.';
COMMENT ON COLUMN mirrorgate.block_traces.staged_at IS 'When the block was staged.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
