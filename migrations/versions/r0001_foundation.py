"""Create tables, staged blocks, landing ledger, leases and keys.

Kind: expand.

The constraints keep these invariants, so that no code has to: one live table per name; the batch counts of a block
match its range of sequences; a landing file is never empty; the files of a generation are numbered without a gap and
cover the sequences without a gap (each file refers to its predecessor by number *and* last sequence).
"""

from alembic import op

revision = "r0001"
down_revision = None

STATEMENTS = """
CREATE TABLE mirrorgate.installation (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    installation_id uuid NOT NULL DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO mirrorgate.installation DEFAULT VALUES;

CREATE TABLE mirrorgate.tables (
    table_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    folded_name text NOT NULL,
    generation integer NOT NULL DEFAULT 1 CHECK (generation >= 1),
    state text NOT NULL DEFAULT 'active'
        CHECK (state IN ('active', 'paused', 'quarantined', 'dropping', 'dropped')),
    state_reason text,
    schema_version integer NOT NULL DEFAULT 1 CHECK (schema_version >= 1),
    options jsonb NOT NULL DEFAULT '{}',
    replicate_metadata jsonb,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX one_live_table_per_name ON mirrorgate.tables (folded_name) WHERE state <> 'dropped';
CREATE INDEX tables_by_replicate_schema ON mirrorgate.tables ((replicate_metadata ->> 'schema_id'));

CREATE TABLE mirrorgate.schema_versions (
    table_id bigint NOT NULL REFERENCES mirrorgate.tables,
    generation integer NOT NULL,
    version integer NOT NULL CHECK (version >= 1),
    key_columns text[] NOT NULL,
    columns jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (table_id, generation, version)
);

CREATE TABLE mirrorgate.table_counters (
    table_id bigint PRIMARY KEY REFERENCES mirrorgate.tables,
    last_sequence bigint NOT NULL DEFAULT 0 CHECK (last_sequence >= 0),
    accepted_changes bigint NOT NULL DEFAULT 0,
    accepted_rows bigint NOT NULL DEFAULT 0,
    next_file_number bigint NOT NULL DEFAULT 1,
    recorded_file_number bigint NOT NULL DEFAULT 0 CHECK (recorded_file_number < next_file_number),
    published_through bigint NOT NULL DEFAULT 0 CHECK (published_through <= last_sequence)
) WITH (fillfactor = 50);

CREATE TABLE mirrorgate.staged_blocks (
    table_id bigint NOT NULL REFERENCES mirrorgate.tables,
    generation integer NOT NULL,
    first_sequence bigint NOT NULL CHECK (first_sequence >= 1),
    last_sequence bigint NOT NULL,
    schema_version integer NOT NULL,
    batch_rows integer[] NOT NULL,
    batch_changes integer[] NOT NULL,
    row_count bigint NOT NULL,
    change_count bigint NOT NULL,
    payload_bytes bigint NOT NULL,
    payload_digest bytea NOT NULL CHECK (octet_length(payload_digest) = 32),
    staged_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (table_id, generation, first_sequence),
    UNIQUE (table_id, generation, last_sequence),
    FOREIGN KEY (table_id, generation, schema_version) REFERENCES mirrorgate.schema_versions,
    CHECK (cardinality(batch_rows) = last_sequence - first_sequence + 1),
    CHECK (cardinality(batch_changes) = cardinality(batch_rows)),
    CHECK (row_count >= 1 AND change_count >= 1)
);

-- The bytes stand apart from the facts about them, so that retention can drop them by partition later
-- and a scan of the facts stays narrow.
CREATE TABLE mirrorgate.block_payloads (
    table_id bigint NOT NULL,
    generation integer NOT NULL,
    first_sequence bigint NOT NULL,
    payload bytea NOT NULL,
    PRIMARY KEY (table_id, generation, first_sequence),
    FOREIGN KEY (table_id, generation, first_sequence) REFERENCES mirrorgate.staged_blocks ON DELETE CASCADE
);
ALTER TABLE mirrorgate.block_payloads ALTER COLUMN payload SET STORAGE EXTERNAL;

CREATE TABLE mirrorgate.landing_files (
    table_id bigint NOT NULL REFERENCES mirrorgate.tables,
    generation integer NOT NULL,
    number bigint NOT NULL CHECK (number >= 1),
    first_sequence bigint NOT NULL CHECK (first_sequence >= 1),
    last_sequence bigint NOT NULL CHECK (last_sequence >= first_sequence),
    schema_version integer NOT NULL,
    row_count bigint NOT NULL CHECK (row_count >= 1),
    change_count bigint NOT NULL CHECK (change_count >= 1),
    digest text NOT NULL,
    state text NOT NULL DEFAULT 'planned' CHECK (state IN ('planned', 'published')),
    planned_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    nominated_epoch bigint,
    nominated_temp text,
    file_bytes bigint,
    file_sha256 text,
    published_at timestamptz,
    preceding_number bigint GENERATED ALWAYS AS (nullif(number - 1, 0)) STORED,
    preceding_sequence bigint GENERATED ALWAYS AS (nullif(first_sequence - 1, 0)) STORED,
    PRIMARY KEY (table_id, generation, number),
    UNIQUE (table_id, generation, number, last_sequence),
    UNIQUE (table_id, generation, last_sequence),
    FOREIGN KEY (table_id, generation, schema_version) REFERENCES mirrorgate.schema_versions,
    FOREIGN KEY (table_id, generation, preceding_number, preceding_sequence)
        REFERENCES mirrorgate.landing_files (table_id, generation, number, last_sequence),
    CHECK ((preceding_number IS NULL) = (preceding_sequence IS NULL)),
    CHECK ((nominated_epoch IS NULL) = (nominated_temp IS NULL)),
    CHECK ((state = 'published') = (published_at IS NOT NULL)),
    CHECK (state = 'planned' OR nominated_temp IS NOT NULL)
);
CREATE INDEX planned_landing_files ON mirrorgate.landing_files (table_id, generation, number)
    WHERE state = 'planned';

CREATE TABLE mirrorgate.workers (
    worker_id uuid PRIMARY KEY,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_until timestamptz NOT NULL
);

CREATE TABLE mirrorgate.table_leases (
    table_id bigint PRIMARY KEY REFERENCES mirrorgate.tables,
    epoch bigint NOT NULL CHECK (epoch >= 1),
    worker_id uuid NOT NULL
);

CREATE TABLE mirrorgate.api_keys (
    key_id text PRIMARY KEY CHECK (key_id ~ '^[0-9a-f]{8,32}$'),
    secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
    rights text[] NOT NULL CHECK (rights <@ ARRAY['ingest', 'read', 'register', 'admin'] AND cardinality(rights) >= 1),
    table_patterns text[] NOT NULL CHECK (cardinality(table_patterns) >= 1),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz
);
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
