"""Keep a fingerprint of the secret of hashed columns, so that processes with different secrets cannot mix hashes.

Kind: expand. Programs of the revision before continue to work, and do not compare their secrets.

The trigger gives a table its fingerprint. A rename and a rebuild keep it: rows that land again from row images are
hashed already.
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
    'Fingerprint of the secret that this generation is hashed under; null without a hashed column.';

CREATE FUNCTION mirrorgate.note_mask_fingerprint() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT jsonb_path_exists(NEW.options, '$.masks.*.method ? (@ == "hash")') THEN
        NEW.mask_fingerprint := NULL;
    ELSIF TG_OP = 'INSERT' OR OLD.mask_fingerprint IS NULL
            OR (NEW.generation <> OLD.generation AND OLD.drop_plan ->> 'action' = 'recreate') THEN
        NEW.mask_fingerprint := (SELECT mask_fingerprint FROM mirrorgate.installation);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION mirrorgate.note_mask_fingerprint() IS
    'Records the secret of a table with hashed columns when these are declared, and when it is recreated.';
CREATE TRIGGER hashes_begin BEFORE INSERT OR UPDATE OF options, generation ON mirrorgate.tables
    FOR EACH ROW EXECUTE FUNCTION mirrorgate.note_mask_fingerprint();
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
