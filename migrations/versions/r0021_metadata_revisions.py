"""Advance a table's revision whenever the metadata of its Replicate source changes.

Kind: expand. Programs of r0020 continue to work, and what they store advances the revision too: a trigger does it. A
batch that was typed under former metadata is typed again, like one that was typed under former options.
"""

from alembic import op

revision = "r0021"
down_revision = "r0020"

STATEMENTS = """
CREATE FUNCTION mirrorgate.advance_revision() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.revision := OLD.revision + 1;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION mirrorgate.advance_revision() IS
    'Makes batches that were typed under a former state of the row be typed again.';
CREATE TRIGGER metadata_changes BEFORE UPDATE OF replicate_metadata ON mirrorgate.tables FOR EACH ROW
    WHEN (NEW.replicate_metadata IS DISTINCT FROM OLD.replicate_metadata)
    EXECUTE FUNCTION mirrorgate.advance_revision();
COMMENT ON COLUMN mirrorgate.tables.revision IS
    'Grows with each change of options, routes, source columns or Replicate metadata; each batch is typed under one.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
