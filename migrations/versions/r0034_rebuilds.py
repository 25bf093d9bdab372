"""Rebuild tables from their row images: the progress of each rebuild, and the rows that change meanwhile.

Kind: expand. Programs of the revision before continue to work while no table is rebuilt. They do not note the rows that
they change, and do not know the state `rebuilding`.
"""

from alembic import op

revision = "r0034"
down_revision = "r0036"

STATEMENTS = """
ALTER TABLE mirrorgate.tables DROP CONSTRAINT tables_state_check;
ALTER TABLE mirrorgate.tables ADD CONSTRAINT tables_state_check
    CHECK (state IN ('active', 'paused', 'quarantined', 'dropping', 'dropped', 'rebuilding'));
ALTER TABLE mirrorgate.tables DROP CONSTRAINT dropping_has_a_plan;
ALTER TABLE mirrorgate.tables ADD CONSTRAINT dropping_has_a_plan
    CHECK ((state IN ('dropping', 'rebuilding')) = (drop_plan IS NOT NULL));
ALTER TABLE mirrorgate.tables DROP CONSTRAINT only_a_dropped_folder_is_gone;
ALTER TABLE mirrorgate.tables ADD CONSTRAINT only_a_dropped_folder_is_gone
    CHECK (state IN ('dropping', 'rebuilding') OR folder_gone_at IS NULL);
COMMENT ON COLUMN mirrorgate.tables.state IS
    'active, paused, quarantined, dropping, dropped or rebuilding (the folder of the generation before is deleted).';
COMMENT ON COLUMN mirrorgate.tables.drop_plan IS
    'While dropping or rebuilding: what follows once the folder is gone (drop, recreate, rename or rebuild).';
ALTER TABLE mirrorgate.tables ADD COLUMN rebuild_due boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN mirrorgate.tables.rebuild_due IS
    'Whether a rebuild or its dry run is copying row images; batches then note the rows that they change.';

CREATE TABLE mirrorgate.rebuilds (
    table_id bigint PRIMARY KEY REFERENCES mirrorgate.tables,
    generation integer NOT NULL CHECK (generation >= 1),
    phase text NOT NULL CHECK (phase IN ('checking', 'checked', 'copying', 'replacing', 'done', 'failed')),
    attempt integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    plan jsonb NOT NULL,
    revision bigint NOT NULL,
    schema_version integer NOT NULL,
    rows_total bigint CHECK (rows_total >= 0),
    rows_done bigint NOT NULL DEFAULT 0 CHECK (rows_done >= 0),
    findings jsonb NOT NULL DEFAULT '[]',
    detail text,
    estimated_seconds double precision CHECK (estimated_seconds >= 0),
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    CONSTRAINT a_finished_rebuild_has_a_time
        CHECK ((phase IN ('checked', 'done', 'failed')) = (finished_at IS NOT NULL))
);
COMMENT ON TABLE mirrorgate.rebuilds IS 'Last rebuild, or dry run of one, of each table.';
COMMENT ON COLUMN mirrorgate.rebuilds.table_id IS 'Table that is rebuilt.';
COMMENT ON COLUMN mirrorgate.rebuilds.generation IS 'Generation whose row images are read; the next one gets the rows.';
COMMENT ON COLUMN mirrorgate.rebuilds.phase IS
    'checking or checked (dry run), copying, replacing (the old folder is deleted), done or failed.';
COMMENT ON COLUMN mirrorgate.rebuilds.attempt IS 'Number of times that a drain began to copy; the last one counts.';
COMMENT ON COLUMN mirrorgate.rebuilds.plan IS 'Schema and options of the next generation, and where its values are.';
COMMENT ON COLUMN mirrorgate.rebuilds.revision IS 'Revision of the table when the rebuild was planned.';
COMMENT ON COLUMN mirrorgate.rebuilds.schema_version IS 'Schema version of the table when the rebuild was planned.';
COMMENT ON COLUMN mirrorgate.rebuilds.rows_total IS 'Row images to copy; null until they are counted.';
COMMENT ON COLUMN mirrorgate.rebuilds.rows_done IS 'Row images that are copied or checked.';
COMMENT ON COLUMN mirrorgate.rebuilds.findings IS 'Rows that cannot be rebuilt: column, code, number, first position.';
COMMENT ON COLUMN mirrorgate.rebuilds.detail IS 'Why the rebuild failed, or why its last attempt did.';
COMMENT ON COLUMN mirrorgate.rebuilds.estimated_seconds IS 'How long a dry run expects the copying to take.';
COMMENT ON COLUMN mirrorgate.rebuilds.started_at IS 'When it was asked for.';
COMMENT ON COLUMN mirrorgate.rebuilds.finished_at IS 'When it was done, or failed.';

CREATE TABLE mirrorgate.rebuild_touched (
    table_id bigint NOT NULL REFERENCES mirrorgate.tables,
    row_key bytea NOT NULL,
    image bytea,
    PRIMARY KEY (table_id, row_key)
);
COMMENT ON TABLE mirrorgate.rebuild_touched IS 'Rows that batches changed since their row images began to be copied.';
COMMENT ON COLUMN mirrorgate.rebuild_touched.table_id IS 'Table that the row belongs to.';
COMMENT ON COLUMN mirrorgate.rebuild_touched.row_key IS 'Key of the row image.';
COMMENT ON COLUMN mirrorgate.rebuild_touched.image IS 'Image that the copy has; null if there was none.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
