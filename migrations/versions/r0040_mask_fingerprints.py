"""Keep a fingerprint of the secret of hashed columns, so that processes with different secrets cannot mix hashes.

Kind: expand. Programs of the revision before continue to work, and do not compare their secrets.

The trigger gives a table its fingerprint, and only a recreation takes it away: the files keep their hashes when options
change, and rows that land again after a rename or a rebuild are hashed already.
"""

from alembic import op

revision = "r0040"
down_revision = "r0038"

STATEMENTS = """
ALTER TABLE mirrorgate.installation ADD COLUMN mask_fingerprint bytea
    CONSTRAINT mask_fingerprint_has_its_length CHECK (octet_length(mask_fingerprint) = 48);
COMMENT ON COLUMN mirrorgate.installation.mask_fingerprint IS
    'Salt and scrypt hash of the present secret of hashed columns; null before the first such column.';

ALTER TABLE mirrorgate.tables ADD COLUMN mask_fingerprint bytea
    CONSTRAINT mask_fingerprint_has_its_length CHECK (octet_length(mask_fingerprint) = 48);
COMMENT ON COLUMN mirrorgate.tables.mask_fingerprint IS
    'Fingerprint of the secret that this generation is hashed under; null if it never had a hashed column.';

CREATE FUNCTION mirrorgate.note_mask_fingerprint() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NEW.generation <> OLD.generation AND OLD.drop_plan ->> 'action' = 'recreate' THEN
        NEW.mask_fingerprint := NULL;
    END IF;
    IF NEW.mask_fingerprint IS NULL AND jsonb_path_exists(NEW.options, '$.masks.*.method ? (@ == "hash")') THEN
        NEW.mask_fingerprint := (SELECT mask_fingerprint FROM mirrorgate.installation);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION mirrorgate.note_mask_fingerprint() IS
    'Records the secret of a table with hashed columns when the first is declared, and when it is recreated.';
CREATE TRIGGER hashes_begin BEFORE INSERT OR UPDATE OF options, generation ON mirrorgate.tables
    FOR EACH ROW EXECUTE FUNCTION mirrorgate.note_mask_fingerprint();
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
