"""Record for the option `row_images` too which tables have a row image of every row, and write new images faster.

The foreign key of row images took as long to check, row by row, as the images took to write (decision 0067). Tables
are never deleted, and images are written only by the owner of a table's counter row, which references it.

Kind: expand. Programs of the revision before continue to work with tables that have the option's default.
"""

from alembic import op

revision = "r0033"
down_revision = "r0032"

STATEMENTS = """
CREATE OR REPLACE FUNCTION mirrorgate.note_incomplete_images() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    kept boolean := coalesce(OLD.options ->> 'partial_updates' = 'complete', false)
        OR coalesce(OLD.options ->> 'row_images' = 'on', false);
    keeps boolean := coalesce(NEW.options ->> 'partial_updates' = 'complete', false)
        OR coalesce(NEW.options ->> 'row_images' = 'on', false);
BEGIN
    IF NEW.generation <> OLD.generation THEN
        NEW.images_complete := true;
    ELSIF keeps <> kept THEN
        NEW.images_complete := NOT EXISTS (
            SELECT FROM mirrorgate.table_counters WHERE table_id = NEW.table_id AND last_sequence > 0);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON COLUMN mirrorgate.tables.images_complete IS
    'Whether the table has kept row images, or none, since the first batch, so that no row lacks a row image.';

ALTER TABLE mirrorgate.row_images DROP CONSTRAINT row_images_table_id_fkey;

-- Each change of a row leaves an old image behind. With the defaults, a fifth of a large table would be dead before the
-- first vacuum, and the sizes that the status of tables shows would be as old.
ALTER TABLE mirrorgate.row_images SET (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
