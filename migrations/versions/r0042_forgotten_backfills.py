"""Forget the place of a backfill where an option deletes row images, whatever program changes the option.

Kind: expand. Programs of the revision before continue to work: they delete the place too, or never knew it.
"""

from alembic import op

revision = "r0042"
down_revision = "r0041"

STATEMENTS = """
CREATE FUNCTION mirrorgate.forget_backfill() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    completed boolean := coalesce(OLD.options ->> 'partial_updates' = 'complete', false);
    completes boolean := coalesce(NEW.options ->> 'partial_updates' = 'complete', false);
    kept boolean := completed OR coalesce(OLD.options ->> 'row_images' = 'on', false);
    keeps boolean := completes OR coalesce(NEW.options ->> 'row_images' = 'on', false);
    was_read boolean := completed OR coalesce(OLD.options ->> 'deletes' = 'flag', false);
    is_read boolean := completes OR coalesce(NEW.options ->> 'deletes' = 'flag', false);
BEGIN
    IF keeps <> kept OR (is_read AND NOT was_read AND NOT NEW.images_complete) THEN
        DELETE FROM mirrorgate.image_backfills WHERE table_id = NEW.table_id;
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION mirrorgate.forget_backfill() IS
    'Deletes how far the backfill of a table is, where new options delete its row images.';
CREATE TRIGGER images_discarded AFTER UPDATE OF options ON mirrorgate.tables
    FOR EACH ROW EXECUTE FUNCTION mirrorgate.forget_backfill();
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
