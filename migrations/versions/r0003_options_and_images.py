"""Add table options, row images, source names and source positions.

Kind: expand.

A source name routes to one table only. The last change sequence of a task has 35 digits, so that its texts sort as the
numbers do.
"""

from alembic import op

revision = "r0003"
down_revision = "r0002"

STATEMENTS = """
ALTER TABLE mirrorgate.tables
    ADD COLUMN revision bigint NOT NULL DEFAULT 1 CHECK (revision >= 1),
    ADD COLUMN column_stays jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN arcion_catalog text;
COMMENT ON COLUMN mirrorgate.tables.column_stays IS
    'Columns that left the source: null while they are gone, else the last batch sequence before they came back.';

ALTER TABLE mirrorgate.table_counters ADD COLUMN cdc_started boolean NOT NULL DEFAULT false;
ALTER TABLE mirrorgate.schema_versions ADD COLUMN bare boolean NOT NULL DEFAULT false;
ALTER TABLE mirrorgate.staged_blocks ADD COLUMN ends_transaction boolean NOT NULL DEFAULT true;

CREATE TABLE mirrorgate.table_sources (
    folded_source text PRIMARY KEY,
    table_id bigint NOT NULL REFERENCES mirrorgate.tables
);
CREATE INDEX table_sources_by_table ON mirrorgate.table_sources (table_id);

CREATE TABLE mirrorgate.source_positions (
    table_id bigint NOT NULL REFERENCES mirrorgate.tables,
    generation integer NOT NULL,
    task text NOT NULL,
    last_sequence text NOT NULL CHECK (last_sequence ~ '^[0-9]{35}$'),
    PRIMARY KEY (table_id, generation, task)
);

-- Images are rewritten in place again and again: room on each page keeps their index as it is.
CREATE TABLE mirrorgate.row_images (
    table_id bigint NOT NULL REFERENCES mirrorgate.tables,
    generation integer NOT NULL,
    row_key bytea NOT NULL CHECK (octet_length(row_key) <= 256),
    sequence bigint NOT NULL CHECK (sequence >= 1),
    image bytea NOT NULL,
    PRIMARY KEY (table_id, generation, row_key)
) WITH (fillfactor = 80);
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
