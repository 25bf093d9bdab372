"""Split payloads into partitions that can be dropped, let a ledger begin late, and total what was purged.

Kind: expand. Programs of r0006 continue to work: the columns that they do not name have defaults, and their rows go
into the open partition.

The migration reads `block_payloads` once, without the bytes in its TOAST table, and rewrites `landing_files`, both
under exclusive locks. With millions of blocks requests wait for seconds, and get 503 `table_busy` if it takes longer.
"""

from alembic import op

revision = "r0007"
down_revision = "r0006"

STATEMENTS = """
-- All locks before anything is done, in the order of the drain and of staging; those that requests need come last.
LOCK TABLE mirrorgate.tables IN SHARE ROW EXCLUSIVE MODE;
LOCK TABLE mirrorgate.installation, mirrorgate.table_leases, mirrorgate.landing_files IN ACCESS EXCLUSIVE MODE;
LOCK TABLE mirrorgate.staged_blocks, mirrorgate.block_payloads IN ACCESS EXCLUSIVE MODE;

ALTER TABLE mirrorgate.installation ADD COLUMN oldest_program text NOT NULL DEFAULT 'r0006'
    CHECK (oldest_program ~ '^r[0-9]{4}$');
COMMENT ON COLUMN mirrorgate.installation.oldest_program IS
    'Programs that need this revision, or a newer one, work with the schema as it is.';

CREATE TABLE mirrorgate.payload_buckets (
    bucket integer PRIMARY KEY CHECK (bucket >= 0),
    state text NOT NULL CHECK (state IN ('ahead', 'open', 'closed')),
    opened_at timestamptz,
    closed_at timestamptz,
    CHECK ((state = 'ahead') = (opened_at IS NULL)),
    CHECK ((state = 'closed') = (closed_at IS NOT NULL))
);
CREATE UNIQUE INDEX one_open_bucket ON mirrorgate.payload_buckets (state) WHERE state = 'open';
INSERT INTO mirrorgate.payload_buckets (bucket, state, opened_at)
    VALUES (0, 'open', clock_timestamp()), (1, 'ahead', NULL);

CREATE FUNCTION mirrorgate.current_bucket() RETURNS integer LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT bucket FROM mirrorgate.payload_buckets WHERE state = 'open');
END $$;

ALTER TABLE mirrorgate.staged_blocks ADD COLUMN bucket integer NOT NULL DEFAULT mirrorgate.current_bucket();
COMMENT ON COLUMN mirrorgate.staged_blocks.bucket IS
    'The payload is in this bucket, or in a later one while that is being opened.';

-- Without the foreign key to staged_blocks: detaching and dropping a partition would lock that table.
ALTER TABLE mirrorgate.block_payloads DROP CONSTRAINT block_payloads_table_id_generation_first_sequence_fkey;
ALTER TABLE mirrorgate.block_payloads RENAME TO block_payloads_0;
ALTER INDEX mirrorgate.block_payloads_pkey RENAME TO block_payloads_0_pkey;
ALTER TABLE mirrorgate.block_payloads_0
    ADD COLUMN bucket integer NOT NULL DEFAULT 0,
    ADD CONSTRAINT block_payloads_0_bucket CHECK (bucket = 0);

-- Each partition has its own primary key, (table_id, generation, first_sequence).
CREATE TABLE mirrorgate.block_payloads (
    table_id bigint NOT NULL,
    generation integer NOT NULL,
    first_sequence bigint NOT NULL,
    payload bytea NOT NULL,
    bucket integer NOT NULL DEFAULT mirrorgate.current_bucket()
) PARTITION BY RANGE (bucket);
ALTER TABLE mirrorgate.block_payloads ALTER COLUMN payload SET STORAGE EXTERNAL;
ALTER TABLE mirrorgate.block_payloads ATTACH PARTITION mirrorgate.block_payloads_0 FOR VALUES FROM (0) TO (1);
CREATE TABLE mirrorgate.block_payloads_1 (
    LIKE mirrorgate.block_payloads INCLUDING DEFAULTS INCLUDING STORAGE,
    CONSTRAINT block_payloads_1_bucket CHECK (bucket = 1),
    PRIMARY KEY (table_id, generation, first_sequence)
);
ALTER TABLE mirrorgate.block_payloads ATTACH PARTITION mirrorgate.block_payloads_1 FOR VALUES FROM (1) TO (2);

CREATE TABLE mirrorgate.purged_totals (
    table_id bigint NOT NULL REFERENCES mirrorgate.tables,
    generation integer NOT NULL,
    through_sequence bigint NOT NULL,
    changes bigint NOT NULL,
    rows bigint NOT NULL,
    files bigint NOT NULL DEFAULT 0,
    file_batches bigint NOT NULL DEFAULT 0 CHECK (file_batches <= through_sequence),
    file_changes bigint NOT NULL DEFAULT 0,
    file_rows bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (table_id, generation)
);
COMMENT ON TABLE mirrorgate.purged_totals IS
    'What the purged staged blocks and landing files of a generation, always its oldest, added up to.';

-- A ledger begins with file 1, or with one published file that the flag names once those before it are purged.
ALTER TABLE mirrorgate.landing_files DROP COLUMN preceding_number, DROP COLUMN preceding_sequence;
ALTER TABLE mirrorgate.landing_files ADD COLUMN begins_ledger boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT only_published_files_begin_a_ledger CHECK (state = 'published' OR NOT begins_ledger);
ALTER TABLE mirrorgate.landing_files
    ADD COLUMN preceding_number bigint
        GENERATED ALWAYS AS (CASE WHEN NOT begins_ledger THEN nullif(number - 1, 0) END) STORED,
    ADD COLUMN preceding_sequence bigint
        GENERATED ALWAYS AS (CASE WHEN NOT begins_ledger THEN nullif(first_sequence - 1, 0) END) STORED,
    ADD CHECK ((preceding_number IS NULL) = (preceding_sequence IS NULL)),
    ADD FOREIGN KEY (table_id, generation, preceding_number, preceding_sequence)
        REFERENCES mirrorgate.landing_files (table_id, generation, number, last_sequence);
-- One beginning for each generation; the foreign key looks successors up in it when a file is deleted.
CREATE UNIQUE INDEX one_ledger_beginning ON mirrorgate.landing_files (table_id, generation, preceding_number)
    NULLS NOT DISTINCT;

ALTER TABLE mirrorgate.table_leases
    ADD COLUMN revoked_through bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT the_present_epoch_is_not_revoked CHECK (revoked_through < epoch);
COMMENT ON COLUMN mirrorgate.table_leases.revoked_through IS
    'No process of these epochs lives any more: their revocation markers are gone and are not made again.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
