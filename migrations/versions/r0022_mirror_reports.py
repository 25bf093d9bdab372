"""Create the reports of the Delta mirror: how far it has applied the landing files of each table.

Kind: expand. Programs of r0021 continue to work. The trigger deletes a report when the table is dropped or starts its
next generation, whichever program does it.
"""

from alembic import op

revision = "r0022"
down_revision = "r0021"

STATEMENTS = """
CREATE TABLE mirrorgate.mirror_reports (
    table_id bigint PRIMARY KEY REFERENCES mirrorgate.tables,
    generation integer NOT NULL CHECK (generation >= 1),
    state text NOT NULL CHECK (state IN ('in_step', 'behind', 'waiting', 'stopped', 'dropped')),
    delta_generation integer NOT NULL CHECK (delta_generation >= 0),
    version bigint CHECK (version >= 0),
    file_number bigint NOT NULL CHECK (file_number >= 0),
    last_file bigint NOT NULL CHECK (last_file >= 0),
    pending_files bigint NOT NULL CHECK (pending_files >= 0),
    code text CHECK (octet_length(code) <= 128),
    detail text CHECK (octet_length(detail) <= 4096),
    remedy text CHECK (octet_length(remedy) <= 4096),
    committed_at timestamptz,
    oldest_pending_at timestamptz,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT files_are_applied_in_versions CHECK (version IS NOT NULL OR (file_number = 0 AND committed_at IS NULL)),
    CONSTRAINT nothing_is_pending_in_step CHECK (state <> 'in_step' OR pending_files = 0),
    CONSTRAINT a_stop_has_a_reason CHECK (state <> 'stopped' OR (code IS NOT NULL AND detail IS NOT NULL)),
    CONSTRAINT a_reason_has_a_code CHECK (code IS NOT NULL OR (detail IS NULL AND remedy IS NULL))
) WITH (fillfactor = 50);
COMMENT ON TABLE mirrorgate.mirror_reports IS
    'Delta mirror: how far it has applied the landing files of each table, as it last reported.';
COMMENT ON COLUMN mirrorgate.mirror_reports.table_id IS 'Table that the row belongs to.';
COMMENT ON COLUMN mirrorgate.mirror_reports.generation IS 'Generation of the table whose files are mirrored.';
COMMENT ON COLUMN mirrorgate.mirror_reports.state IS
    'in_step, behind, waiting (for a missing file), stopped or dropped.';
COMMENT ON COLUMN mirrorgate.mirror_reports.delta_generation IS
    'Generation of the Delta table, counted by the mirror; 0 before its first commit.';
COMMENT ON COLUMN mirrorgate.mirror_reports.version IS 'Delta version; null before the first commit.';
COMMENT ON COLUMN mirrorgate.mirror_reports.file_number IS 'Last landing file that is applied; 0 before the first.';
COMMENT ON COLUMN mirrorgate.mirror_reports.last_file IS 'Last numbered file that the mirror saw in the folder.';
COMMENT ON COLUMN mirrorgate.mirror_reports.pending_files IS 'Files that the mirror saw and has not applied.';
COMMENT ON COLUMN mirrorgate.mirror_reports.code IS 'Error code if the table waits or is stopped.';
COMMENT ON COLUMN mirrorgate.mirror_reports.detail IS 'What is wrong, and in which file.';
COMMENT ON COLUMN mirrorgate.mirror_reports.remedy IS 'What the operator can do.';
COMMENT ON COLUMN mirrorgate.mirror_reports.committed_at IS 'Time of the Delta version.';
COMMENT ON COLUMN mirrorgate.mirror_reports.oldest_pending_at IS 'Time of the oldest file that is not applied.';
COMMENT ON COLUMN mirrorgate.mirror_reports.updated_at IS
    'When the mirror last reported; at least every ten seconds while it runs.';

CREATE FUNCTION mirrorgate.delete_mirror_report() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM mirrorgate.mirror_reports WHERE table_id = NEW.table_id;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION mirrorgate.delete_mirror_report() IS 'Deletes the mirror report of a generation that has ended.';
CREATE TRIGGER generation_ended AFTER UPDATE OF state, generation ON mirrorgate.tables FOR EACH ROW
    WHEN (NEW.state = 'dropped' OR NEW.generation <> OLD.generation)
    EXECUTE FUNCTION mirrorgate.delete_mirror_report();
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
