"""Add Fabric's status of each table, when it was last read, and when a dropped folder was found gone.

Kind: expand.
"""

from alembic import op

revision = "r0008"
down_revision = "r0007"

STATEMENTS = """
CREATE TABLE mirrorgate.mirror_states (
    table_id bigint PRIMARY KEY REFERENCES mirrorgate.tables,
    generation integer NOT NULL,
    state text,
    error text,
    processed_rows bigint CHECK (processed_rows >= 0),
    processed_bytes bigint CHECK (processed_bytes >= 0),
    last_sync_at timestamptz,
    read_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE mirrorgate.mirror_readings (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    read_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

ALTER TABLE mirrorgate.tables
    ADD COLUMN folder_gone_at timestamptz,
    ADD CONSTRAINT only_a_dropped_folder_is_gone CHECK (state = 'dropping' OR folder_gone_at IS NULL);
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
