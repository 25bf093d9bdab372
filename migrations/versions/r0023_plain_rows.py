"""Keep dead letters of plain rows, and record which tables have a row image of every row.

Kind: expand. Programs of r0022 continue to work, but cannot read dead letters in the new formats. The trigger sets
`images_complete`, whichever program changes the options. Tables that already have batches and row images are recorded
as incomplete, because it is not known when the option was set.
"""

from alembic import op

revision = "r0023"
down_revision = "r0022"

STATEMENTS = """
ALTER TABLE mirrorgate.dead_letters DROP CONSTRAINT dead_letters_format_check;
ALTER TABLE mirrorgate.dead_letters ADD CONSTRAINT dead_letters_format_check
    CHECK (format IN ('arcion', 'arcion_csv', 'replicate', 'rows', 'rows_csv'));
COMMENT ON COLUMN mirrorgate.dead_letters.format IS
    'Format of the message: arcion, arcion_csv, replicate, rows or rows_csv.';

ALTER TABLE mirrorgate.tables ADD COLUMN images_complete boolean NOT NULL DEFAULT true;
COMMENT ON COLUMN mirrorgate.tables.images_complete IS
    'Whether partial_updates had its present value before the first batch, so that no row lacks a row image.';
UPDATE mirrorgate.tables t SET images_complete = false FROM mirrorgate.table_counters c
    WHERE c.table_id = t.table_id AND c.last_sequence > 0 AND t.options ->> 'partial_updates' = 'complete';

CREATE FUNCTION mirrorgate.note_incomplete_images() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.generation <> OLD.generation THEN
        NEW.images_complete := true;
    ELSIF NEW.options ->> 'partial_updates' IS DISTINCT FROM OLD.options ->> 'partial_updates' THEN
        NEW.images_complete := NOT EXISTS (
            SELECT FROM mirrorgate.table_counters WHERE table_id = NEW.table_id AND last_sequence > 0);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION mirrorgate.note_incomplete_images() IS
    'Records whether rows were accepted before the table began to keep row images.';
CREATE TRIGGER images_begin BEFORE UPDATE OF options, generation ON mirrorgate.tables FOR EACH ROW
    EXECUTE FUNCTION mirrorgate.note_incomplete_images();
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
