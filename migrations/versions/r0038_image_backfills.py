"""Keep how far the backfill of a table's row images is, so that another process can continue it.

Kind: expand. Programs of the revision before continue to work: they do not show backfills, and begin each one anew.
"""

from alembic import op

revision = "r0038"
down_revision = "r0037"

STATEMENTS = """
CREATE TABLE mirrorgate.image_backfills (
    table_id bigint PRIMARY KEY REFERENCES mirrorgate.tables,
    generation integer NOT NULL CHECK (generation >= 1),
    state text NOT NULL CONSTRAINT backfill_state_is_known
        CHECK (state IN ('running', 'done', 'failed', 'cancelled')),
    attempt integer NOT NULL CHECK (attempt >= 1),
    step text NOT NULL CONSTRAINT backfill_step_is_known CHECK (step IN ('mirror', 'older', 'payloads')),
    mirror_id text,
    mirror_version bigint,
    mirror_rows bigint NOT NULL DEFAULT 0 CHECK (mirror_rows >= 0),
    through_key bytea,
    through_sequence bigint NOT NULL CHECK (through_sequence >= 0),
    rows_done bigint NOT NULL DEFAULT 0 CHECK (rows_done >= 0),
    rows_total bigint NOT NULL CHECK (rows_total >= 0),
    batches_total bigint NOT NULL CHECK (batches_total >= 0),
    detail text,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    CONSTRAINT only_a_running_backfill_has_no_end CHECK ((state = 'running') = (finished_at IS NULL)),
    CONSTRAINT rows_of_a_mirror_are_of_one_version CHECK (step = 'payloads' OR mirror_version IS NOT NULL),
    CONSTRAINT a_version_is_of_one_table CHECK ((mirror_version IS NULL) = (mirror_id IS NULL))
);
COMMENT ON TABLE mirrorgate.image_backfills IS
    'Last backfill of each table''s row images. Deleting a table''s images deletes its row, because it begins anew.';
COMMENT ON COLUMN mirrorgate.image_backfills.table_id IS 'Table whose rows get images.';
COMMENT ON COLUMN mirrorgate.image_backfills.generation IS 'Generation whose rows get images.';
COMMENT ON COLUMN mirrorgate.image_backfills.state IS
    'running (perhaps in a process that died), done, failed or cancelled.';
COMMENT ON COLUMN mirrorgate.image_backfills.attempt IS
    'Number of times that a process began or continued it; only the last one writes.';
COMMENT ON COLUMN mirrorgate.image_backfills.step IS
    'mirror (copying its rows), older (deleting images of rows that it no longer has) or payloads (replaying them).';
COMMENT ON COLUMN mirrorgate.image_backfills.mirror_id IS
    'Id of the Delta table, which another one at its place does not have.';
COMMENT ON COLUMN mirrorgate.image_backfills.mirror_version IS
    'Delta version whose rows are copied; null for a backfill from payloads alone.';
COMMENT ON COLUMN mirrorgate.image_backfills.mirror_rows IS 'Rows of that version that are copied, in its order.';
COMMENT ON COLUMN mirrorgate.image_backfills.through_key IS 'Last row key that the step older has looked at.';
COMMENT ON COLUMN mirrorgate.image_backfills.through_sequence IS
    'Last batch whose rows have images; in the steps before payloads, the last one that the Delta version has.';
COMMENT ON COLUMN mirrorgate.image_backfills.rows_done IS 'Rows that were read.';
COMMENT ON COLUMN mirrorgate.image_backfills.rows_total IS 'Rows to read, as known when the attempt began.';
COMMENT ON COLUMN mirrorgate.image_backfills.batches_total IS 'Last batch of the table at the last step.';
COMMENT ON COLUMN mirrorgate.image_backfills.detail IS 'Why it failed.';
COMMENT ON COLUMN mirrorgate.image_backfills.started_at IS 'When it was begun.';
COMMENT ON COLUMN mirrorgate.image_backfills.updated_at IS 'When its last step was done.';
COMMENT ON COLUMN mirrorgate.image_backfills.finished_at IS 'When it was done or cancelled, or failed.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
