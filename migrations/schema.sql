-- The database schema, with the purpose of each table and column in the line above it. Until the first release, edit
-- this file and run `make schema`, which writes it again from a database that it made; a test compares the two.
-- Alembic makes alembic_version; app/staging/retention/payload_partitions.py makes the partitions of block_payloads.

CREATE SCHEMA mirrorgate;

-- Makes batches that were typed under a former state of the row be typed again.
CREATE FUNCTION mirrorgate.advance_revision() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    NEW.revision := OLD.revision + 1;
    RETURN NEW;
END $$;

-- Number of the open payload partition.
CREATE FUNCTION mirrorgate.current_bucket() RETURNS integer
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN (SELECT bucket FROM mirrorgate.payload_buckets WHERE state = 'open');
END $$;

-- Names what a restart, a restore or a failover changes: the database, a file of its tables, the start of its server.
CREATE FUNCTION mirrorgate.database_run() RETURNS text
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN concat_ws('/', (SELECT oid FROM pg_database WHERE datname = current_database()),
        pg_relation_filenode('mirrorgate.table_leases'), extract(epoch FROM pg_postmaster_start_time()));
END $$;

-- Deletes the mirror report of a generation that has ended.
CREATE FUNCTION mirrorgate.delete_mirror_report() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM mirrorgate.mirror_reports WHERE table_id = NEW.table_id;
    RETURN NULL;
END $$;

-- Deletes how far the backfill of a table is, where new options delete its row images.
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

-- Records whether rows were accepted before the table began to keep row images.
CREATE FUNCTION mirrorgate.note_incomplete_images() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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

-- Records the secret of a table with hashed columns when the first is declared, and when it is recreated.
CREATE FUNCTION mirrorgate.note_mask_fingerprint() RETURNS trigger
    LANGUAGE plpgsql
    AS $_$
BEGIN
    IF NEW.generation <> OLD.generation AND OLD.drop_plan ->> 'action' = 'recreate' THEN
        NEW.mask_fingerprint := NULL;
    END IF;
    IF NEW.mask_fingerprint IS NULL AND jsonb_path_exists(NEW.options, '$.masks.*.method ? (@ == "hash")') THEN
        NEW.mask_fingerprint := (SELECT mask_fingerprint FROM mirrorgate.installation);
    END IF;
    RETURN NEW;
END $_$;

-- Identity of this database, and what holds for all its programs. One row.
CREATE TABLE mirrorgate.installation (
    -- Always true, so that the primary key allows one row.
    only_row boolean DEFAULT true NOT NULL,
    -- Identity of the gateway; the landing zone and the folder markers name it.
    installation_id uuid DEFAULT gen_random_uuid() NOT NULL,
    -- When the database was first migrated.
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    -- Whether the row marker is the first column of files; set once, by the first start.
    marker_first boolean,
    -- Programs that need this revision, or a newer one, work with the schema as it is.
    oldest_program text DEFAULT 'r0001'::text NOT NULL,
    -- Salt and scrypt hash of the present secret of hashed columns; null before the first such column.
    mask_fingerprint bytea,
    CONSTRAINT installation_pkey PRIMARY KEY (only_row),
    CONSTRAINT installation_oldest_program_check CHECK ((oldest_program ~ '^r[0-9]{4}$'::text)),
    CONSTRAINT installation_only_row_check CHECK (only_row),
    CONSTRAINT mask_fingerprint_has_its_length CHECK ((octet_length(mask_fingerprint) = 48))
);

-- Destination tables, each with one folder in the landing zone. Dropped tables stay, for their history.
CREATE TABLE mirrorgate.tables (
    -- Id of the table; it survives renames and is never reused.
    table_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    -- Name as registered: <schema>.<table> or <table>.
    name text NOT NULL,
    -- Name without letter case; unique among the tables that are not dropped.
    folded_name text NOT NULL,
    -- Current lifetime of the folder, from 1; a recreate, a rename or a later table of the name starts the next one.
    generation integer DEFAULT 1 NOT NULL,
    -- active, paused, quarantined, dropping, dropped or rebuilding (the folder of the generation before is deleted).
    state text DEFAULT 'active'::text NOT NULL,
    -- Why a quarantined table stopped, or why a drop has not ended yet.
    state_reason text,
    -- Current version in schema_versions.
    schema_version integer DEFAULT 1 NOT NULL,
    -- Table options; docs/reference/options.md lists them.
    options jsonb DEFAULT '{}'::jsonb NOT NULL,
    -- Last metadata message of Qlik Replicate, and under `earlier` those before it.
    replicate_metadata jsonb,
    -- When the table was registered.
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    -- Grows with each change of options, routes, source columns or Replicate metadata; each batch is typed under one.
    revision bigint DEFAULT 1 NOT NULL,
    -- Columns that left the source: null while gone, else the last batch before their return.
    column_stays jsonb DEFAULT '{}'::jsonb NOT NULL,
    -- Catalog whose Arcion messages feed the table; null until a message names one.
    arcion_catalog text,
    -- While dropping or rebuilding: what follows once the folder is gone (drop, recreate, rename or rebuild).
    drop_plan jsonb,
    -- When a drain first found the folder of a dropping table gone (step R5).
    folder_gone_at timestamp with time zone,
    -- Schema ids in replicate_metadata, by which a data message finds its tables.
    replicate_schema_ids jsonb GENERATED ALWAYS AS ((jsonb_path_query_array(replicate_metadata, '$."schema_id"'::jsonpath) || jsonb_path_query_array(replicate_metadata, '$."earlier"[*]."schema_id"'::jsonpath))) STORED,
    -- An operator asked the next owner to write _gateway.json of the folder again.
    rewrite_marker boolean DEFAULT false NOT NULL,
    -- Whether the table has kept row images, or none, since the first batch, so that no row lacks a row image.
    images_complete boolean DEFAULT true NOT NULL,
    -- Whether a rebuild or its dry run is copying row images; batches then note the rows that they change.
    rebuild_due boolean DEFAULT false NOT NULL,
    -- Fingerprint of the secret that this generation is hashed under; null if it never had a hashed column.
    mask_fingerprint bytea,
    CONSTRAINT tables_pkey PRIMARY KEY (table_id),
    CONSTRAINT dropping_has_a_plan CHECK (((state = ANY (ARRAY['dropping'::text, 'rebuilding'::text])) = (drop_plan IS NOT NULL))),
    CONSTRAINT mask_fingerprint_has_its_length CHECK ((octet_length(mask_fingerprint) = 48)),
    CONSTRAINT only_a_dropped_folder_is_gone CHECK (((state = ANY (ARRAY['dropping'::text, 'rebuilding'::text])) OR (folder_gone_at IS NULL))),
    CONSTRAINT tables_generation_check CHECK ((generation >= 1)),
    CONSTRAINT tables_revision_check CHECK ((revision >= 1)),
    CONSTRAINT tables_schema_version_check CHECK ((schema_version >= 1)),
    CONSTRAINT tables_state_check CHECK ((state = ANY (ARRAY['active'::text, 'paused'::text, 'quarantined'::text, 'dropping'::text, 'dropped'::text, 'rebuilding'::text])))
);
CREATE UNIQUE INDEX one_live_table_per_name ON mirrorgate.tables USING btree (folded_name) WHERE (state <> 'dropped'::text);
CREATE INDEX tables_by_replicate_schema ON mirrorgate.tables USING btree (((replicate_metadata ->> 'schema_id'::text)));
CREATE INDEX tables_by_schema_ids ON mirrorgate.tables USING gin (replicate_schema_ids);
CREATE TRIGGER generation_ended AFTER UPDATE OF state, generation ON mirrorgate.tables FOR EACH ROW WHEN (((new.state = 'dropped'::text) OR (new.generation <> old.generation))) EXECUTE FUNCTION mirrorgate.delete_mirror_report();
CREATE TRIGGER hashes_begin BEFORE INSERT OR UPDATE OF options, generation ON mirrorgate.tables FOR EACH ROW EXECUTE FUNCTION mirrorgate.note_mask_fingerprint();
CREATE TRIGGER images_begin BEFORE UPDATE OF options, generation ON mirrorgate.tables FOR EACH ROW EXECUTE FUNCTION mirrorgate.note_incomplete_images();
CREATE TRIGGER images_discarded AFTER UPDATE OF options ON mirrorgate.tables FOR EACH ROW EXECUTE FUNCTION mirrorgate.forget_backfill();
CREATE TRIGGER metadata_changes BEFORE UPDATE OF replicate_metadata ON mirrorgate.tables FOR EACH ROW WHEN ((new.replicate_metadata IS DISTINCT FROM old.replicate_metadata)) EXECUTE FUNCTION mirrorgate.advance_revision();

-- Columns of each schema version of a generation. A version never changes.
CREATE TABLE mirrorgate.schema_versions (
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Generation of the table.
    generation integer NOT NULL,
    -- Number of the version in its generation, from 1.
    version integer NOT NULL,
    -- Names of the key columns, in order; empty for a keyless table.
    key_columns text[] NOT NULL,
    -- Columns in order: name, type and whether they can be null.
    columns jsonb NOT NULL,
    -- When the version was registered.
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    -- Whether landing files of this version have no row marker.
    bare boolean DEFAULT false NOT NULL,
    -- Columns, key columns and row marker of the landing files, if they differ from those of the source.
    lands_as jsonb,
    CONSTRAINT schema_versions_pkey PRIMARY KEY (table_id, generation, version),
    CONSTRAINT schema_versions_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id),
    CONSTRAINT lands_as_is_a_schema CHECK ((lands_as ?& ARRAY['columns'::text, 'key_columns'::text, 'bare'::text])),
    CONSTRAINT schema_versions_version_check CHECK ((version >= 1))
);

-- Counters of the current generation. The lock of the row is the sequence lock, which orders the batches.
CREATE TABLE mirrorgate.table_counters (
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Last batch sequence that was taken; 0 before the first batch.
    last_sequence bigint DEFAULT 0 NOT NULL,
    -- Changes that were accepted.
    accepted_changes bigint DEFAULT 0 NOT NULL,
    -- Landing rows of the accepted changes.
    accepted_rows bigint DEFAULT 0 NOT NULL,
    -- Number that the next planned file gets.
    next_file_number bigint DEFAULT 1 NOT NULL,
    -- Last file that is recorded as published; 0 before the first file.
    recorded_file_number bigint DEFAULT 0 NOT NULL,
    -- Last batch sequence in a published file.
    published_through bigint DEFAULT 0 NOT NULL,
    -- Whether changes other than snapshot rows were accepted.
    cdc_started boolean DEFAULT false NOT NULL,
    -- Batches through this sequence are published without waiting for a full or old file.
    flush_through bigint DEFAULT 0 NOT NULL,
    -- Load that may be open, read with the sequence lock.
    open_load uuid,
    -- Time from the commit in the source to the acceptance of the last change that tells it, in seconds.
    source_lag_seconds double precision,
    -- When that change was accepted.
    source_lag_at timestamp with time zone,
    -- The part of the lag in which the tool had not read the change yet, if it tells.
    extraction_lag_seconds double precision,
    -- Highest operation count of Arcion; null before the first.
    operation_count bigint,
    -- Changes in a row with consecutive operation counts, up to the number from which a jump counts.
    counted_changes bigint DEFAULT 0 NOT NULL,
    -- Changes that are missing by the operation counts.
    missing_changes bigint DEFAULT 0 NOT NULL,
    CONSTRAINT table_counters_pkey PRIMARY KEY (table_id),
    CONSTRAINT table_counters_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id),
    CONSTRAINT table_counters_check CHECK ((recorded_file_number < next_file_number)),
    CONSTRAINT table_counters_check1 CHECK ((published_through <= last_sequence)),
    CONSTRAINT table_counters_last_sequence_check CHECK ((last_sequence >= 0)),
    CONSTRAINT table_counters_missing_changes_check CHECK (((counted_changes >= 0) AND (missing_changes >= 0)))
)
WITH (fillfactor='50');

-- Facts about accepted batches: one block is one or more consecutive batches of a table.
CREATE TABLE mirrorgate.staged_blocks (
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Generation of the table.
    generation integer NOT NULL,
    -- First batch sequence of the block.
    first_sequence bigint NOT NULL,
    -- Last batch sequence of the block.
    last_sequence bigint NOT NULL,
    -- Schema version under which the rows were typed.
    schema_version integer NOT NULL,
    -- Landing rows of each batch.
    batch_rows integer[] NOT NULL,
    -- Changes of each batch.
    batch_changes integer[] NOT NULL,
    -- Landing rows of the block.
    row_count bigint NOT NULL,
    -- Changes of the block.
    change_count bigint NOT NULL,
    -- Size of the payload.
    payload_bytes bigint NOT NULL,
    -- Size of the rows once the payload is decoded; files are planned by it too.
    landed_bytes bigint DEFAULT 0 NOT NULL,
    -- SHA-256 of the payload, which each build verifies.
    payload_digest bytea NOT NULL,
    -- When the block was staged.
    staged_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- Whether the last change ends a source transaction; files end there if possible.
    ends_transaction boolean DEFAULT true NOT NULL,
    -- The source tool's own mark of the last change; null if it gives none.
    source_position text,
    -- Payload partition; the payload is in a later one if that was opened in between.
    bucket integer DEFAULT mirrorgate.current_bucket() NOT NULL,
    CONSTRAINT staged_blocks_pkey PRIMARY KEY (table_id, generation, first_sequence),
    CONSTRAINT staged_blocks_table_id_generation_last_sequence_key UNIQUE (table_id, generation, last_sequence),
    CONSTRAINT staged_blocks_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id),
    CONSTRAINT staged_blocks_table_id_generation_schema_version_fkey FOREIGN KEY (table_id, generation, schema_version) REFERENCES mirrorgate.schema_versions(table_id, generation, version),
    CONSTRAINT staged_blocks_check CHECK ((cardinality(batch_rows) = ((last_sequence - first_sequence) + 1))),
    CONSTRAINT staged_blocks_check1 CHECK ((cardinality(batch_changes) = cardinality(batch_rows))),
    CONSTRAINT staged_blocks_check2 CHECK (((row_count >= 1) AND (change_count >= 1))),
    CONSTRAINT staged_blocks_first_sequence_check CHECK ((first_sequence >= 1)),
    CONSTRAINT staged_blocks_landed_bytes_check CHECK ((landed_bytes >= 0)),
    CONSTRAINT staged_blocks_payload_digest_check CHECK ((octet_length(payload_digest) = 32))
);

-- Landing ledger: which batches make which file. Foreign keys chain each file to the one before it.
CREATE TABLE mirrorgate.landing_files (
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Generation of the table.
    generation integer NOT NULL,
    -- Number of the file, from 1 without a gap; with 20 digits it is the name.
    number bigint NOT NULL,
    -- First batch sequence in the file; 1 for a seed file, which has no batch.
    first_sequence bigint NOT NULL,
    -- Last batch sequence in the file; 0 for a seed file.
    last_sequence bigint NOT NULL,
    -- Schema version of the file.
    schema_version integer NOT NULL,
    -- Landing rows in the file.
    row_count bigint NOT NULL,
    -- Changes in the file.
    change_count bigint NOT NULL,
    -- SHA-256 over the digests of the payloads, in order; also in the footer of the file.
    digest text NOT NULL,
    -- planned (bound to its batches, perhaps visible) or published (visible and recorded).
    state text DEFAULT 'planned'::text NOT NULL,
    -- When the file was planned (step W4).
    planned_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- Epoch in which the build was registered (step W5).
    nominated_epoch bigint,
    -- Registered build: the only file in scratch that can take the number in that epoch.
    nominated_temp text,
    -- Size of the registered build.
    file_bytes bigint,
    -- SHA-256 of the bytes of the registered build.
    file_sha256 text,
    -- When the file was recorded as published (step W8).
    published_at timestamp with time zone,
    -- An operator asked to write the published file again under its number.
    repair_requested boolean DEFAULT false NOT NULL,
    -- Whether the file is the oldest that is kept, because retention deleted those before it.
    begins_ledger boolean DEFAULT false NOT NULL,
    -- Number of the file before it; null where the ledger begins.
    preceding_number bigint GENERATED ALWAYS AS (CASE WHEN (NOT begins_ledger) THEN NULLIF((number - 1), 0) ELSE NULL::bigint END) STORED,
    -- Last batch sequence of the file before it; null where the ledger begins.
    preceding_sequence bigint GENERATED ALWAYS AS (CASE WHEN ((number > 1) AND (NOT begins_ledger)) THEN (first_sequence - 1) ELSE NULL::bigint END) STORED,
    CONSTRAINT landing_files_pkey PRIMARY KEY (table_id, generation, number),
    CONSTRAINT landing_files_table_id_generation_last_sequence_key UNIQUE (table_id, generation, last_sequence),
    CONSTRAINT landing_files_table_id_generation_number_last_sequence_key UNIQUE (table_id, generation, number, last_sequence),
    CONSTRAINT files_follow_each_other FOREIGN KEY (table_id, generation, preceding_number, preceding_sequence) REFERENCES mirrorgate.landing_files(table_id, generation, number, last_sequence),
    CONSTRAINT landing_files_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id),
    CONSTRAINT landing_files_table_id_generation_schema_version_fkey FOREIGN KEY (table_id, generation, schema_version) REFERENCES mirrorgate.schema_versions(table_id, generation, version),
    CONSTRAINT both_or_neither_precede CHECK (((preceding_number IS NULL) = (preceding_sequence IS NULL))),
    CONSTRAINT landing_files_check2 CHECK (((nominated_epoch IS NULL) = (nominated_temp IS NULL))),
    CONSTRAINT landing_files_check3 CHECK (((state = 'published'::text) = (published_at IS NOT NULL))),
    CONSTRAINT landing_files_check4 CHECK (((state = 'planned'::text) OR (nominated_temp IS NOT NULL))),
    CONSTRAINT landing_files_first_sequence_check CHECK ((first_sequence >= 1)),
    CONSTRAINT landing_files_number_check CHECK ((number >= 1)),
    CONSTRAINT landing_files_state_check CHECK ((state = ANY (ARRAY['planned'::text, 'published'::text]))),
    CONSTRAINT only_a_seed_is_empty CHECK (CASE WHEN (last_sequence >= first_sequence) THEN ((row_count >= 1) AND (change_count >= 1)) ELSE ((number = 1) AND (last_sequence = 0) AND (row_count = 0) AND (change_count = 0)) END),
    CONSTRAINT only_published_files_are_repaired CHECK (((state = 'published'::text) OR (NOT repair_requested))),
    CONSTRAINT only_published_files_begin_a_ledger CHECK (((state = 'published'::text) OR (NOT begins_ledger))),
    CONSTRAINT the_first_file_begins_with_batch_one CHECK (((number > 1) OR (first_sequence = 1)))
);
CREATE INDEX landing_files_to_repair ON mirrorgate.landing_files USING btree (table_id, generation, number) WHERE repair_requested;
CREATE UNIQUE INDEX one_ledger_beginning ON mirrorgate.landing_files USING btree (table_id, generation, preceding_number) NULLS NOT DISTINCT;
CREATE INDEX planned_landing_files ON mirrorgate.landing_files USING btree (table_id, generation, number) WHERE (state = 'planned'::text);

-- Drains that are alive, or were less than a day ago.
CREATE TABLE mirrorgate.workers (
    -- Random id of the drain.
    worker_id uuid NOT NULL,
    -- When the drain started.
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- When the drain last renewed its lease.
    heartbeat_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- Until when no other drain can claim the tables of this one.
    lease_until timestamp with time zone NOT NULL,
    -- Length of the lease; null if the program is older than r0012.
    lease_seconds double precision,
    -- How far the drain's clock is behind the database's; negative if it is ahead.
    clock_behind_seconds double precision,
    -- Error code of what keeps the drain from publishing anything; null while it publishes.
    waits_for text,
    CONSTRAINT workers_pkey PRIMARY KEY (worker_id),
    CONSTRAINT workers_lease_seconds_check CHECK ((lease_seconds > (0)::double precision)),
    CONSTRAINT workers_waits_for_check CHECK ((length(waits_for) <= 64))
);

-- Leases: which drain can publish which table, and under which epoch.
CREATE TABLE mirrorgate.table_leases (
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Grows with each claim; a durable step under an older epoch fails.
    epoch bigint NOT NULL,
    -- Drain that claimed the table last; it owns the table while it is alive.
    worker_id uuid NOT NULL,
    -- No process of these epochs lives any more; their revocation markers are not needed.
    revoked_through bigint DEFAULT 0 NOT NULL,
    -- Run of the database in which the table was claimed; in any other run the lease is over.
    database_run text DEFAULT mirrorgate.database_run() NOT NULL,
    CONSTRAINT table_leases_pkey PRIMARY KEY (table_id),
    CONSTRAINT table_leases_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id),
    CONSTRAINT table_leases_epoch_check CHECK ((epoch >= 1)),
    CONSTRAINT the_present_epoch_is_not_revoked CHECK ((revoked_through < epoch))
);

-- API keys: who can call the API, with which rights on which tables.
CREATE TABLE mirrorgate.api_keys (
    -- Public part of the key mg_<key_id>_<secret>.
    key_id text NOT NULL,
    -- SHA-256 of the newest secret.
    secret_hash bytea NOT NULL,
    -- One or more of ingest, read, register and admin.
    rights text[] NOT NULL,
    -- Patterns of the table names that the rights are for.
    table_patterns text[] NOT NULL,
    -- When the key was created.
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    -- When the key ends; null for never.
    expires_at timestamp with time zone,
    -- When the key was last used; each API process writes it once a minute at most.
    last_used_at timestamp with time zone,
    -- Requests a second in each API process; null for the limit of its settings.
    requests_per_second double precision,
    -- Bytes a second in each API process; null for the limit of its settings.
    bytes_per_second bigint,
    -- Random part of the signing secret of this key; NULL if its holder does not sign bodies.
    signing_salt bytea,
    CONSTRAINT api_keys_pkey PRIMARY KEY (key_id),
    CONSTRAINT api_keys_bytes_per_second_check CHECK ((bytes_per_second > 0)),
    CONSTRAINT api_keys_key_id_check CHECK ((key_id ~ '^[0-9a-f]{8,32}$'::text)),
    CONSTRAINT api_keys_requests_per_second_check CHECK ((requests_per_second > (0)::double precision)),
    CONSTRAINT api_keys_rights_check CHECK (((rights <@ ARRAY['ingest'::text, 'read'::text, 'register'::text, 'admin'::text]) AND (cardinality(rights) >= 1))),
    CONSTRAINT api_keys_secret_hash_check CHECK ((octet_length(secret_hash) = 32)),
    CONSTRAINT api_keys_table_patterns_check CHECK ((cardinality(table_patterns) >= 1)),
    CONSTRAINT signing_salt_has_its_length CHECK ((octet_length(signing_salt) = 16))
);

-- Metadata chain: the schemas and published files of a generation, each block with the hash of the one before.
CREATE TABLE mirrorgate.metadata_blocks (
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Generation of the table.
    generation integer NOT NULL,
    -- Number of the block in the chain, from 0.
    sequence_number bigint NOT NULL,
    -- SHA-256 of the block.
    block_hash text NOT NULL,
    -- Hash of the block before it; null in block 0.
    previous_hash text,
    -- When the block was appended.
    system_time timestamp with time zone NOT NULL,
    -- What the block records; its `kind` is Seed in block 0 and nowhere else.
    event jsonb NOT NULL,
    -- Number of the block before it; null in block 0.
    preceding_number bigint GENERATED ALWAYS AS ((NULLIF(sequence_number, 0) - 1)) STORED,
    CONSTRAINT metadata_blocks_pkey PRIMARY KEY (table_id, generation, sequence_number),
    CONSTRAINT metadata_blocks_table_id_generation_sequence_number_block_h_key UNIQUE (table_id, generation, sequence_number, block_hash),
    CONSTRAINT metadata_blocks_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id),
    CONSTRAINT metadata_blocks_table_id_generation_preceding_number_previ_fkey FOREIGN KEY (table_id, generation, preceding_number, previous_hash) REFERENCES mirrorgate.metadata_blocks(table_id, generation, sequence_number, block_hash),
    CONSTRAINT metadata_blocks_block_hash_check CHECK ((block_hash ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT metadata_blocks_check CHECK (((previous_hash IS NULL) = (sequence_number = 0))),
    CONSTRAINT metadata_blocks_check1 CHECK (((sequence_number = 0) = ((event ->> 'kind'::text) = 'Seed'::text))),
    CONSTRAINT metadata_blocks_sequence_number_check CHECK ((sequence_number >= 0))
);
CREATE INDEX metadata_blocks_of_schemas ON mirrorgate.metadata_blocks USING btree (table_id, generation, sequence_number) WHERE ((event ->> 'kind'::text) = 'SetDataSchema'::text);

-- Names that lead to a table besides its own: those of the option `sources`, and its new name during a rename.
CREATE TABLE mirrorgate.table_sources (
    -- Name of the source without letter case; it feeds one table.
    folded_source text NOT NULL,
    -- Table that the source feeds.
    table_id bigint NOT NULL,
    CONSTRAINT table_sources_pkey PRIMARY KEY (folded_source),
    CONSTRAINT table_sources_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id),
    CONSTRAINT source_name_is_bounded CHECK ((octet_length(folded_source) <= 1024))
);
CREATE INDEX table_sources_by_table ON mirrorgate.table_sources USING btree (table_id);

-- How far each source task has come, for tables that enforce the order of the source.
CREATE TABLE mirrorgate.source_positions (
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Generation of the table.
    generation integer NOT NULL,
    -- Name of the log or of the source task, with the partition that was read.
    task text NOT NULL,
    -- Last accepted position, as a text that sorts as the log does.
    last_position text NOT NULL,
    -- Digests of the accepted rows at this position.
    last_rows text[] NOT NULL,
    -- Latest time that the source gives an accepted change.
    newest_at timestamp with time zone,
    CONSTRAINT source_positions_pkey PRIMARY KEY (table_id, generation, task),
    CONSTRAINT source_positions_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id),
    CONSTRAINT source_position_is_bounded CHECK (((octet_length(last_position) >= 1) AND (octet_length(last_position) <= 256))),
    CONSTRAINT source_positions_last_rows_check CHECK ((cardinality(last_rows) <= 1000)),
    CONSTRAINT source_task_is_bounded CHECK ((octet_length(task) <= 1024))
);

-- Latest source values of each row, which complete partial updates.
CREATE TABLE mirrorgate.row_images (
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Generation of the table.
    generation integer NOT NULL,
    -- Canonical form of the key values, or its digest if it is longer than 256 bytes.
    row_key bytea NOT NULL,
    -- Batch sequence that wrote the image.
    sequence bigint NOT NULL,
    -- Source values as JSON, by column position.
    image bytea NOT NULL,
    CONSTRAINT row_images_pkey PRIMARY KEY (table_id, generation, row_key),
    CONSTRAINT row_images_row_key_check CHECK ((octet_length(row_key) <= 256)),
    CONSTRAINT row_images_sequence_check CHECK ((sequence >= 1))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.05', autovacuum_vacuum_insert_scale_factor='0.05', autovacuum_analyze_scale_factor='0.05', autovacuum_vacuum_cost_delay='1');

-- What operators and the drain did to tables; kept when the table is gone.
CREATE TABLE mirrorgate.table_events (
    -- Order of the event; audit_events takes its ids from the same sequence.
    event_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Name of the table at that time, without letter case.
    folded_name text NOT NULL,
    -- Generation of the table.
    generation integer NOT NULL,
    -- When it was done.
    happened_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- Caller that asked for it, or `drain`.
    actor text NOT NULL,
    -- What was done, such as drop, pause or quarantined.
    action text NOT NULL,
    -- Why, as the operator or the drain stated it.
    reason text,
    -- Facts about it, such as the plan of a drop.
    details jsonb DEFAULT '{}'::jsonb NOT NULL,
    -- Request that asked for it.
    request_id text,
    CONSTRAINT table_events_pkey PRIMARY KEY (event_id),
    CONSTRAINT table_events_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id)
);
CREATE INDEX table_events_by_name ON mirrorgate.table_events USING btree (folded_name, event_id);

-- Producers that number their requests.
CREATE TABLE mirrorgate.producers (
    -- Caller: the id of its key, or the subject of its token.
    principal text NOT NULL,
    -- Name of the producer.
    producer text NOT NULL,
    -- Number of its last accepted request; the next one must follow without a gap.
    last_sequence bigint DEFAULT 0 NOT NULL,
    -- How far its last accepted request with a position reaches in its source, as the producer wrote it.
    "position" text,
    CONSTRAINT producers_pkey PRIMARY KEY (principal, producer),
    CONSTRAINT position_is_bounded CHECK (((octet_length("position") >= 1) AND (octet_length("position") <= 256))),
    CONSTRAINT producer_is_bounded CHECK (((octet_length(producer) <= 255) AND (octet_length(principal) <= 1024))),
    CONSTRAINT producers_last_sequence_check CHECK ((last_sequence >= 0))
);

-- Answers to accepted requests that callers can repeat.
CREATE TABLE mirrorgate.request_receipts (
    -- Caller: the id of its key, or the subject of its token.
    principal text NOT NULL,
    -- Idempotency key, or the name of the producer if there is a producer sequence.
    name text NOT NULL,
    -- Number that the producer gave to the request; 0 if the name is an idempotency key.
    producer_sequence bigint NOT NULL,
    -- SHA-256 of the request; a repeat must have the same one.
    fingerprint bytea NOT NULL,
    -- Answer that a repeat gets.
    answer jsonb NOT NULL,
    -- When the request was accepted.
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT request_receipts_pkey PRIMARY KEY (principal, name, producer_sequence),
    CONSTRAINT request_name_is_bounded CHECK (((octet_length(name) <= 255) AND (octet_length(principal) <= 1024))),
    CONSTRAINT request_receipts_fingerprint_check CHECK ((octet_length(fingerprint) = 32)),
    CONSTRAINT request_receipts_producer_sequence_check CHECK ((producer_sequence >= 0))
);
CREATE INDEX request_receipts_by_age ON mirrorgate.request_receipts USING btree (created_at);

-- Payload partitions: one is open, the next one is attached ahead, and those before are closed.
CREATE TABLE mirrorgate.payload_buckets (
    -- Number of the partition block_payloads_<bucket>.
    bucket integer NOT NULL,
    -- ahead, open or closed.
    state text NOT NULL,
    -- When staging began to write into the partition.
    opened_at timestamp with time zone,
    -- When the next partition was opened.
    closed_at timestamp with time zone,
    CONSTRAINT payload_buckets_pkey PRIMARY KEY (bucket),
    CONSTRAINT payload_buckets_bucket_check CHECK ((bucket >= 0)),
    CONSTRAINT payload_buckets_check CHECK (((state = 'ahead'::text) = (opened_at IS NULL))),
    CONSTRAINT payload_buckets_check1 CHECK (((state = 'closed'::text) = (closed_at IS NOT NULL))),
    CONSTRAINT payload_buckets_state_check CHECK ((state = ANY (ARRAY['ahead'::text, 'open'::text, 'closed'::text])))
);
CREATE UNIQUE INDEX one_open_bucket ON mirrorgate.payload_buckets USING btree (state) WHERE (state = 'open'::text);

-- Payloads of the staged blocks. The key of each partition is (table_id, generation, first_sequence).
CREATE TABLE mirrorgate.block_payloads (
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Generation of the table.
    generation integer NOT NULL,
    -- First batch sequence of the block.
    first_sequence bigint NOT NULL,
    -- Landing rows as one compressed Arrow IPC record batch, without its schema.
    payload bytea NOT NULL,
    -- Number of the payload partition, in payload_buckets.
    bucket integer DEFAULT mirrorgate.current_bucket() NOT NULL
)
PARTITION BY RANGE (bucket);
ALTER TABLE ONLY mirrorgate.block_payloads ALTER COLUMN payload SET STORAGE EXTERNAL;

-- Totals of the oldest blocks and files of a generation that retention deleted.
CREATE TABLE mirrorgate.purged_totals (
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Generation of the table.
    generation integer NOT NULL,
    -- Last batch sequence whose block is deleted.
    through_sequence bigint NOT NULL,
    -- Changes of the deleted blocks.
    changes bigint NOT NULL,
    -- Landing rows of the deleted blocks.
    rows bigint NOT NULL,
    -- Number of the last file that is deleted from the ledger.
    files bigint DEFAULT 0 NOT NULL,
    -- Last batch sequence of the deleted files.
    file_batches bigint DEFAULT 0 NOT NULL,
    -- Changes of the deleted files.
    file_changes bigint DEFAULT 0 NOT NULL,
    -- Landing rows of the deleted files.
    file_rows bigint DEFAULT 0 NOT NULL,
    CONSTRAINT purged_totals_pkey PRIMARY KEY (table_id, generation),
    CONSTRAINT purged_totals_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id),
    CONSTRAINT purged_totals_check CHECK ((file_batches <= through_sequence))
);

-- Replication status: what Fabric last reported about each table.
CREATE TABLE mirrorgate.fabric_states (
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Generation that the report is about.
    generation integer NOT NULL,
    -- State of the replication, in the words of Fabric.
    state text,
    -- Error that Fabric reported, as <code>: <message>.
    error text,
    -- Rows that Fabric has processed.
    processed_rows bigint,
    -- Bytes that Fabric has processed.
    processed_bytes bigint,
    -- When Fabric last synchronized the table.
    last_sync_at timestamp with time zone,
    -- When a drain read the report.
    read_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- Whether Fabric has given the table up.
    has_failed boolean DEFAULT false NOT NULL,
    -- Who can correct the error: user, system or unknown.
    whose text,
    -- Last synchronization that queries of the SQL endpoint show; null if that is unknown.
    queryable_at timestamp with time zone,
    -- Why the last refresh of the SQL endpoint does not show the table's newest version; null if it does.
    queryable_error text,
    CONSTRAINT fabric_states_pkey PRIMARY KEY (table_id),
    CONSTRAINT fabric_states_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id),
    CONSTRAINT fabric_states_processed_bytes_check CHECK ((processed_bytes >= 0)),
    CONSTRAINT fabric_states_processed_rows_check CHECK ((processed_rows >= 0)),
    CONSTRAINT fault_is_someones CHECK ((whose = ANY (ARRAY['user'::text, 'system'::text, 'unknown'::text])))
);

-- When a drain last claimed the reading of Fabric's report, so that one drain reads it at a time. One row.
CREATE TABLE mirrorgate.fabric_readings (
    -- Always true, so that the primary key allows one row.
    only_row boolean DEFAULT true NOT NULL,
    -- When a drain last claimed the reading.
    read_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT fabric_readings_pkey PRIMARY KEY (only_row),
    CONSTRAINT fabric_readings_only_row_check CHECK (only_row)
);

-- Secrets that a rotation has replaced; each works until its overlap ends.
CREATE TABLE mirrorgate.former_key_secrets (
    -- Key that had the secret.
    key_id text NOT NULL,
    -- SHA-256 of the secret.
    secret_hash bytea NOT NULL,
    -- When the secret stops working.
    valid_until timestamp with time zone NOT NULL,
    CONSTRAINT former_key_secrets_pkey PRIMARY KEY (key_id, secret_hash),
    CONSTRAINT former_key_secrets_key_id_fkey FOREIGN KEY (key_id) REFERENCES mirrorgate.api_keys(key_id) ON DELETE CASCADE,
    CONSTRAINT former_key_secrets_secret_hash_check CHECK ((octet_length(secret_hash) = 32))
);

-- Names of API keys; they outlive their keys, because the audit and the events of tables have the ids of deleted ones.
CREATE TABLE mirrorgate.key_names (
    -- Key that has the name, or had it.
    key_id text NOT NULL,
    -- What people call the key; several keys may have one name.
    name text NOT NULL,
    CONSTRAINT key_names_pkey PRIMARY KEY (key_id),
    CONSTRAINT key_names_name_check CHECK (((name <> ''::text) AND (char_length(name) <= 100) AND (name !~ '[\x01-\x1f\x7f]'::text)))
);

-- Rejections, counted by the minute, and operations on keys and registrations; table_events has the rest.
CREATE TABLE mirrorgate.audit_events (
    -- Order of the event among those of table_events too.
    event_id bigint DEFAULT nextval('mirrorgate.table_events_event_id_seq'::regclass) NOT NULL,
    -- When it happened; for rejections the minute in which they are counted.
    happened_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- Request of an operation; null for rejections.
    request_id text,
    -- Caller; null if it is unknown.
    subject text,
    -- Operation that was done or rejected.
    action text NOT NULL,
    -- Name of the table without letter case; null if it is about none.
    folded_name text,
    -- HTTP status of the rejections; null for an operation.
    status smallint,
    -- Error code of the rejections; null for an operation.
    code text,
    -- How often it was rejected in that minute; 1 for an operation.
    times bigint DEFAULT 1 NOT NULL,
    -- Facts about an operation.
    details jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT audit_events_pkey PRIMARY KEY (event_id),
    CONSTRAINT a_refusal_has_status_and_code CHECK (((status IS NULL) = (code IS NULL))),
    CONSTRAINT an_act_is_one CHECK (((code IS NOT NULL) OR ((times = 1) AND (subject IS NOT NULL)))),
    CONSTRAINT audit_events_times_check CHECK ((times >= 1)),
    CONSTRAINT refusals_are_counted_by_the_minute CHECK (((code IS NULL) OR (EXTRACT(second FROM happened_at) = (0)::numeric)))
);
CREATE INDEX audit_events_by_age ON mirrorgate.audit_events USING btree (happened_at);
CREATE UNIQUE INDEX one_row_per_refusal_and_minute ON mirrorgate.audit_events USING btree (happened_at, action, subject, folded_name, status, code) NULLS NOT DISTINCT WHERE (code IS NOT NULL);

-- Rejected messages of accepted requests, kept until an operator replays or discards them.
CREATE TABLE mirrorgate.dead_letters (
    -- Id of the dead letter, in the order of arrival.
    letter_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Generation of the table.
    generation integer NOT NULL,
    -- Format of the message: arcion, arcion_csv, replicate, debezium, rows or rows_csv.
    format text NOT NULL,
    -- What the request stated about how to read the message.
    reading jsonb NOT NULL,
    -- Message as the source wrote it.
    message bytea NOT NULL,
    -- Why the message was rejected.
    errors jsonb NOT NULL,
    -- Position of the message in its request, from 0.
    message_index integer NOT NULL,
    -- Caller of the request.
    principal text NOT NULL,
    -- Idempotency key, or the name of the producer if there is a producer sequence.
    request_name text,
    -- Number that the producer gave to the request.
    producer_sequence bigint,
    -- When the request was accepted.
    received_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- waiting, replayed or discarded.
    state text DEFAULT 'waiting'::text NOT NULL,
    -- When the message was replayed or discarded.
    settled_at timestamp with time zone,
    -- Who replayed or discarded the message.
    settled_by text,
    -- Whether the replayed message was corrected before.
    corrected boolean DEFAULT false NOT NULL,
    -- Batch sequence that has the replayed message.
    replayed_sequence bigint,
    CONSTRAINT dead_letters_pkey PRIMARY KEY (letter_id),
    CONSTRAINT dead_letters_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id),
    CONSTRAINT a_number_has_a_producer CHECK (((producer_sequence IS NULL) OR (request_name IS NOT NULL))),
    CONSTRAINT dead_letters_errors_check CHECK (((jsonb_typeof(errors) = 'array'::text) AND (jsonb_array_length(errors) >= 1))),
    CONSTRAINT dead_letters_format_check CHECK ((format = ANY (ARRAY['arcion'::text, 'arcion_csv'::text, 'replicate'::text, 'debezium'::text, 'rows'::text, 'rows_csv'::text]))),
    CONSTRAINT dead_letters_generation_check CHECK ((generation >= 1)),
    CONSTRAINT dead_letters_message_check CHECK ((octet_length(message) <= 1048576)),
    CONSTRAINT dead_letters_message_index_check CHECK ((message_index >= 0)),
    CONSTRAINT dead_letters_producer_sequence_check CHECK ((producer_sequence >= 1)),
    CONSTRAINT dead_letters_replayed_sequence_check CHECK ((replayed_sequence >= 1)),
    CONSTRAINT dead_letters_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'replayed'::text, 'discarded'::text]))),
    CONSTRAINT only_a_replay_corrects CHECK (((state = 'replayed'::text) OR (NOT corrected))),
    CONSTRAINT replayed_in_a_batch CHECK (((state = 'replayed'::text) = (replayed_sequence IS NOT NULL))),
    CONSTRAINT settled_by_somebody CHECK (((settled_at IS NULL) = (settled_by IS NULL))),
    CONSTRAINT waiting_or_settled CHECK (((state = 'waiting'::text) = (settled_at IS NULL)))
);
CREATE INDEX dead_letters_by_table ON mirrorgate.dead_letters USING btree (table_id, letter_id);
CREATE INDEX settled_dead_letters ON mirrorgate.dead_letters USING btree (settled_at) WHERE (state <> 'waiting'::text);
CREATE INDEX waiting_dead_letters ON mirrorgate.dead_letters USING btree (table_id, letter_id) WHERE (state = 'waiting'::text);

-- Last failure of each table that has not been published since.
CREATE TABLE mirrorgate.table_failures (
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Generation whose publication failed.
    generation integer NOT NULL,
    -- Error code of the last failure.
    code text NOT NULL,
    -- Text of the last failure.
    detail text NOT NULL,
    -- What the operator can do.
    remedy text NOT NULL,
    -- Failed tries in a row.
    tries integer DEFAULT 1 NOT NULL,
    -- When the first of these tries failed.
    since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- When the last try failed.
    last_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT table_failures_pkey PRIMARY KEY (table_id),
    CONSTRAINT table_failures_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id),
    CONSTRAINT table_failures_detail_check CHECK ((octet_length(detail) <= 4096)),
    CONSTRAINT table_failures_generation_check CHECK ((generation >= 1)),
    CONSTRAINT table_failures_tries_check CHECK ((tries >= 1))
);

-- Landing zone that this gateway publishes into. One row, written by the first start of a drain.
CREATE TABLE mirrorgate.landing_zone (
    -- Always true, so that the primary key allows one row.
    only_one boolean DEFAULT true NOT NULL,
    -- Id in _scratchPad/_gateway.json of the zone.
    zone_id uuid NOT NULL,
    -- Address under which the zone was last used.
    location text NOT NULL,
    -- When the gateway began to use this zone.
    since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT landing_zone_pkey PRIMARY KEY (only_one),
    CONSTRAINT landing_zone_location_check CHECK (((octet_length(location) >= 1) AND (octet_length(location) <= 8192))),
    CONSTRAINT landing_zone_only_one_check CHECK (only_one)
);

-- Delta mirror: how far it has applied the landing files of each table, as it last reported.
CREATE TABLE mirrorgate.mirror_reports (
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Generation of the table whose files are mirrored.
    generation integer NOT NULL,
    -- in_step, behind, waiting (for a missing file), stopped or dropped.
    state text NOT NULL,
    -- Generation of the Delta table, counted by the mirror; 0 before its first commit.
    delta_generation integer NOT NULL,
    -- Delta version; null before the first commit.
    version bigint,
    -- Last landing file that is applied; 0 before the first.
    file_number bigint NOT NULL,
    -- Last numbered file that the mirror saw in the folder.
    last_file bigint NOT NULL,
    -- Files that the mirror saw and has not applied.
    pending_files bigint NOT NULL,
    -- Error code if the table waits or is stopped.
    code text,
    -- What is wrong, and in which file.
    detail text,
    -- What the operator can do.
    remedy text,
    -- Time of the Delta version.
    committed_at timestamp with time zone,
    -- Time of the oldest file that is not applied.
    oldest_pending_at timestamp with time zone,
    -- When the mirror last reported; at least every ten seconds while it runs.
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT mirror_reports_pkey PRIMARY KEY (table_id),
    CONSTRAINT mirror_reports_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id),
    CONSTRAINT a_reason_has_a_code CHECK (((code IS NOT NULL) OR ((detail IS NULL) AND (remedy IS NULL)))),
    CONSTRAINT a_stop_has_a_reason CHECK (((state <> 'stopped'::text) OR ((code IS NOT NULL) AND (detail IS NOT NULL)))),
    CONSTRAINT files_are_applied_in_versions CHECK (((version IS NOT NULL) OR ((file_number = 0) AND (committed_at IS NULL)))),
    CONSTRAINT mirror_reports_code_check CHECK ((octet_length(code) <= 128)),
    CONSTRAINT mirror_reports_delta_generation_check CHECK ((delta_generation >= 0)),
    CONSTRAINT mirror_reports_detail_check CHECK ((octet_length(detail) <= 4096)),
    CONSTRAINT mirror_reports_file_number_check CHECK ((file_number >= 0)),
    CONSTRAINT mirror_reports_generation_check CHECK ((generation >= 1)),
    CONSTRAINT mirror_reports_last_file_check CHECK ((last_file >= 0)),
    CONSTRAINT mirror_reports_pending_files_check CHECK ((pending_files >= 0)),
    CONSTRAINT mirror_reports_remedy_check CHECK ((octet_length(remedy) <= 4096)),
    CONSTRAINT mirror_reports_state_check CHECK ((state = ANY (ARRAY['in_step'::text, 'behind'::text, 'waiting'::text, 'stopped'::text, 'dropped'::text]))),
    CONSTRAINT mirror_reports_version_check CHECK ((version >= 0)),
    CONSTRAINT nothing_is_pending_in_step CHECK (((state <> 'in_step'::text) OR (pending_files = 0)))
)
WITH (fillfactor='50');

-- Layouts by name: where Replicate messages of a custom format have images, headers and table.
CREATE TABLE mirrorgate.layouts (
    -- Name, as the parameter layout of a change request gives it.
    name text NOT NULL,
    -- The places of the parts of a message, and the names of operations.
    layout jsonb NOT NULL,
    -- When the layout was last changed.
    changed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- Key id or token subject that changed it last.
    changed_by text NOT NULL,
    CONSTRAINT layouts_pkey PRIMARY KEY (name),
    CONSTRAINT layout_author_is_bounded CHECK ((octet_length(changed_by) <= 300)),
    CONSTRAINT layout_is_an_object CHECK ((jsonb_typeof(layout) = 'object'::text)),
    CONSTRAINT layout_is_bounded CHECK ((octet_length((layout)::text) <= 65536)),
    CONSTRAINT layout_name_is_plain CHECK ((name ~ '^[a-z0-9][a-z0-9_-]{0,63}$'::text))
);

-- Browsers that are signed in to the console.
CREATE TABLE mirrorgate.console_sessions (
    -- SHA-256 of the token in the browser's cookie, which is not stored.
    session_hash bytea NOT NULL,
    -- Id of the key that signed in, or oidc: and the subject of the token.
    subject text NOT NULL,
    -- Binds the session to the secret that signed in: HMAC of the hash of the secret under the token. NULL for a token.
    proof bytea,
    -- What the token of the identity provider granted; NULL for a key, whose rights are read with each request.
    grants jsonb,
    -- When the browser signed in.
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- When the session was last used, exact to a minute.
    last_used_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- When the session ends, used or not.
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT console_sessions_pkey PRIMARY KEY (session_hash),
    CONSTRAINT console_sessions_check CHECK (((proof IS NULL) <> (grants IS NULL))),
    CONSTRAINT console_sessions_grants_check CHECK ((length((grants)::text) <= 65536)),
    CONSTRAINT console_sessions_proof_check CHECK ((octet_length(proof) = 32)),
    CONSTRAINT console_sessions_session_hash_check CHECK ((octet_length(session_hash) = 32)),
    CONSTRAINT console_sessions_subject_check CHECK ((length(subject) <= 256))
);
CREATE INDEX console_sessions_by_subject ON mirrorgate.console_sessions USING btree (subject, created_at);

-- What the tables did in each minute, for the plots of the console; idle tables are left out.
CREATE TABLE mirrorgate.history (
    -- Minute that the sample is for; one process claims it.
    minute timestamp with time zone NOT NULL,
    -- When the sample was taken.
    sampled_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- Seconds since the sample before, in which the accepted and published rows were counted.
    seconds double precision NOT NULL,
    -- Landing rows of all tables that were accepted since the sample before.
    accepted_rows bigint DEFAULT 0 NOT NULL,
    -- Landing rows of all tables that were published since the sample before.
    published_rows bigint DEFAULT 0 NOT NULL,
    -- Landing rows of all tables that were not published at the sample.
    pending_rows bigint DEFAULT 0 NOT NULL,
    -- Age of the oldest batch of any table that was not published at the sample.
    oldest_seconds double precision DEFAULT 0 NOT NULL,
    -- Tables with activity or lag; the other arrays have one element for each of them, in this order.
    table_ids bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    -- Accepted rows of each table since the sample before.
    table_accepted_rows bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    -- Published rows of each table since the sample before.
    table_published_rows bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    -- Rows of each table that were not published at the sample.
    table_pending_rows bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    -- Age of the oldest batch of each table that was not published at the sample.
    table_oldest_seconds real[] DEFAULT '{}'::real[] NOT NULL,
    CONSTRAINT history_pkey PRIMARY KEY (minute),
    CONSTRAINT history_seconds_check CHECK ((seconds > (0)::double precision))
);

-- Where the counters of each table were at the last sample of the history.
CREATE TABLE mirrorgate.history_marks (
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Generation of the table at the sample.
    generation integer NOT NULL,
    -- Landing rows that the table had accepted.
    accepted_rows bigint NOT NULL,
    -- Last file that the table had published.
    file_number bigint NOT NULL,
    CONSTRAINT history_marks_pkey PRIMARY KEY (table_id),
    CONSTRAINT history_marks_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id)
);

-- Trace contexts of staged blocks, for the spans of the drain. Written only while traces are sent; kept for a day.
CREATE TABLE mirrorgate.block_traces (
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Generation of the table.
    generation integer NOT NULL,
    -- First batch sequence of the block.
    first_sequence bigint NOT NULL,
    -- W3C trace context of the transaction that staged the block.
    traceparent text NOT NULL,
    -- When the block was staged.
    staged_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT block_traces_pkey PRIMARY KEY (table_id, generation, first_sequence),
    CONSTRAINT block_traces_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id),
    CONSTRAINT trace_context_is_w3c CHECK ((traceparent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-01$'::text))
);
CREATE INDEX block_traces_by_age ON mirrorgate.block_traces USING btree (staged_at);

-- Troubles that API processes have found, for MIRRORGATE_ALERT_URL.
CREATE TABLE mirrorgate.alerts (
    -- What the alert is about.
    kind text NOT NULL,
    -- Name of the table, or of the part of the gateway.
    subject text NOT NULL,
    -- critical or warning.
    severity text NOT NULL,
    -- Error code of the cause.
    code text NOT NULL,
    -- What is wrong.
    detail text NOT NULL,
    -- What to do.
    remedy text NOT NULL,
    -- When the trouble was first seen.
    since timestamp with time zone NOT NULL,
    -- Code with which it was last told; null if it was never told.
    told_code text,
    -- When the present code was first seen.
    code_since timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT alerts_pkey PRIMARY KEY (kind, subject),
    CONSTRAINT alert_kind_is_known CHECK ((kind = ANY (ARRAY['part'::text, 'table_quarantined'::text, 'table_failing'::text, 'fabric_table'::text, 'changes_missing'::text, 'source_lag'::text, 'dead_letters'::text, 'backlog'::text]))),
    CONSTRAINT alert_severity_is_known CHECK ((severity = ANY (ARRAY['critical'::text, 'warning'::text])))
);

-- What the API of Fabric last said about the mirrored database. One row where drains ask it, else none.
CREATE TABLE mirrorgate.fabric_database (
    -- Always true, so that the primary key allows one row.
    only_row boolean DEFAULT true NOT NULL,
    -- When a drain first asked.
    watched_since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- When a drain may ask again; moved forward by the one that asks.
    next_poll_at timestamp with time zone NOT NULL,
    -- State of the database, in the words of Fabric.
    state text,
    -- When this state was first seen.
    state_since timestamp with time zone,
    -- Error of the database, as <code>: <message>.
    error text,
    -- Who can correct the error: user, system or unknown.
    whose text,
    -- When the API last answered.
    answered_at timestamp with time zone,
    -- When the API last listed the tables.
    tables_at timestamp with time zone,
    -- Error code of the last question if it failed, else null.
    problem_code text,
    -- Why the last question failed.
    problem_detail text,
    -- What to do about that.
    problem_remedy text,
    -- Whether the drain that asked last refreshes the SQL endpoint.
    refreshes_sql boolean DEFAULT false NOT NULL,
    CONSTRAINT fabric_database_pkey PRIMARY KEY (only_row),
    CONSTRAINT a_problem_is_whole CHECK ((((problem_code IS NULL) = (problem_detail IS NULL)) AND ((problem_code IS NULL) = (problem_remedy IS NULL)))),
    CONSTRAINT an_answer_has_a_state CHECK ((((state IS NULL) = (answered_at IS NULL)) AND ((state IS NULL) = (state_since IS NULL)))),
    CONSTRAINT fabric_database_only_row_check CHECK (only_row),
    CONSTRAINT fault_is_someones CHECK ((whose = ANY (ARRAY['user'::text, 'system'::text, 'unknown'::text])))
);

-- Load sessions: reloads of tables beside their streams of changes.
CREATE TABLE mirrorgate.loads (
    -- Id of the load, which its requests name.
    load_id uuid NOT NULL,
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Generation of the table; the load ends with it.
    generation integer NOT NULL,
    -- full deletes the rows that the load does not have, append deletes none.
    mode text NOT NULL,
    -- open, completing, completed, aborted or expired.
    state text DEFAULT 'open'::text NOT NULL,
    -- First batch sequence after the load began.
    begin_sequence bigint NOT NULL,
    -- Batches that the load has staged.
    batches bigint DEFAULT 0 NOT NULL,
    -- Rows of the load that land.
    rows bigint DEFAULT 0 NOT NULL,
    -- Rows of the load whose keys the stream changed meanwhile.
    superseded bigint DEFAULT 0 NOT NULL,
    -- Rows that completing the load has deleted.
    deletes bigint DEFAULT 0 NOT NULL,
    -- Last row key that completing the load has looked at.
    scanned_through bytea,
    -- The load expires this long after the last request with it.
    idle_seconds double precision NOT NULL,
    -- Id of the key that began the load.
    started_by text NOT NULL,
    -- When the load began.
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- When the load expires unless a request uses it.
    expires_at timestamp with time zone NOT NULL,
    -- When the load was completed or aborted, or found to be expired.
    ended_at timestamp with time zone,
    CONSTRAINT loads_pkey PRIMARY KEY (load_id),
    CONSTRAINT loads_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id),
    CONSTRAINT ended_load_has_a_time CHECK (((state = ANY (ARRAY['open'::text, 'completing'::text])) = (ended_at IS NULL))),
    CONSTRAINT load_mode_is_known CHECK ((mode = ANY (ARRAY['full'::text, 'append'::text]))),
    CONSTRAINT load_state_is_known CHECK ((state = ANY (ARRAY['open'::text, 'completing'::text, 'completed'::text, 'aborted'::text, 'expired'::text]))),
    CONSTRAINT loads_begin_sequence_check CHECK ((begin_sequence >= 1)),
    CONSTRAINT loads_idle_seconds_check CHECK ((idle_seconds > (0)::double precision)),
    CONSTRAINT only_full_loads_delete CHECK (((mode = 'full'::text) OR ((state <> 'completing'::text) AND (deletes = 0))))
);
CREATE INDEX loads_by_table ON mirrorgate.loads USING btree (table_id, started_at);
CREATE UNIQUE INDEX one_open_load_per_table ON mirrorgate.loads USING btree (table_id) WHERE (state = ANY (ARRAY['open'::text, 'completing'::text]));

-- Batches of open loads; images of other batches are the stream's.
CREATE TABLE mirrorgate.load_batches (
    -- Load that staged the batch.
    load_id uuid NOT NULL,
    -- Sequence of the batch.
    sequence bigint NOT NULL,
    CONSTRAINT load_batches_pkey PRIMARY KEY (load_id, sequence),
    CONSTRAINT load_batches_load_id_fkey FOREIGN KEY (load_id) REFERENCES mirrorgate.loads(load_id) ON DELETE CASCADE
);

-- Keys that the stream deleted while a load was open.
CREATE TABLE mirrorgate.load_deletes (
    -- Load that was open.
    load_id uuid NOT NULL,
    -- Row key, as in row_images.
    row_key bytea NOT NULL,
    CONSTRAINT load_deletes_pkey PRIMARY KEY (load_id, row_key),
    CONSTRAINT load_deletes_load_id_fkey FOREIGN KEY (load_id) REFERENCES mirrorgate.loads(load_id) ON DELETE CASCADE
);

-- Last rebuild, or dry run of one, of each table.
CREATE TABLE mirrorgate.rebuilds (
    -- Table that is rebuilt.
    table_id bigint NOT NULL,
    -- Generation whose row images are read; the next one gets the rows.
    generation integer NOT NULL,
    -- checking or checked (dry run), copying, replacing (the old folder is deleted), done or failed.
    phase text NOT NULL,
    -- Number of times that a drain began to copy; the last one counts.
    attempt integer DEFAULT 0 NOT NULL,
    -- Schema and options of the next generation, and where its values are.
    plan jsonb NOT NULL,
    -- Revision of the table when the rebuild was planned.
    revision bigint NOT NULL,
    -- Schema version of the table when the rebuild was planned.
    schema_version integer NOT NULL,
    -- Row images to copy; null until they are counted.
    rows_total bigint,
    -- Row images that are copied or checked.
    rows_done bigint DEFAULT 0 NOT NULL,
    -- Rows that cannot be rebuilt: column, code, number, first position.
    findings jsonb DEFAULT '[]'::jsonb NOT NULL,
    -- Why the rebuild failed, or why its last attempt did.
    detail text,
    -- How long a dry run expects the copying to take.
    estimated_seconds double precision,
    -- When it was asked for.
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- When it was done, or failed.
    finished_at timestamp with time zone,
    CONSTRAINT rebuilds_pkey PRIMARY KEY (table_id),
    CONSTRAINT rebuilds_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id),
    CONSTRAINT a_finished_rebuild_has_a_time CHECK (((phase = ANY (ARRAY['checked'::text, 'done'::text, 'failed'::text])) = (finished_at IS NOT NULL))),
    CONSTRAINT rebuilds_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT rebuilds_estimated_seconds_check CHECK ((estimated_seconds >= (0)::double precision)),
    CONSTRAINT rebuilds_generation_check CHECK ((generation >= 1)),
    CONSTRAINT rebuilds_phase_check CHECK ((phase = ANY (ARRAY['checking'::text, 'checked'::text, 'copying'::text, 'replacing'::text, 'done'::text, 'failed'::text]))),
    CONSTRAINT rebuilds_rows_done_check CHECK ((rows_done >= 0)),
    CONSTRAINT rebuilds_rows_total_check CHECK ((rows_total >= 0))
);

-- Rows that batches changed since their row images began to be copied.
CREATE TABLE mirrorgate.rebuild_touched (
    -- Table that the row belongs to.
    table_id bigint NOT NULL,
    -- Key of the row image.
    row_key bytea NOT NULL,
    -- Image that the copy has; null if there was none.
    image bytea,
    CONSTRAINT rebuild_touched_pkey PRIMARY KEY (table_id, row_key),
    CONSTRAINT rebuild_touched_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id)
);

-- Last backfill of each table's row images. Deleting a table's images deletes its row, because it begins anew.
CREATE TABLE mirrorgate.image_backfills (
    -- Table whose rows get images.
    table_id bigint NOT NULL,
    -- Generation whose rows get images.
    generation integer NOT NULL,
    -- running (the drain that owns the table carries it out), done, failed or cancelled.
    state text NOT NULL,
    -- Last batch whose rows all have images.
    through_sequence bigint NOT NULL,
    -- Rows that were read.
    rows_done bigint DEFAULT 0 NOT NULL,
    -- Rows to read, as known when it was asked for.
    rows_total bigint NOT NULL,
    -- Last batch of the table at the last step.
    batches_total bigint NOT NULL,
    -- Why it failed.
    detail text,
    -- When it was begun.
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- When its last step was done.
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    -- When it was done or cancelled, or failed.
    finished_at timestamp with time zone,
    CONSTRAINT image_backfills_pkey PRIMARY KEY (table_id),
    CONSTRAINT image_backfills_table_id_fkey FOREIGN KEY (table_id) REFERENCES mirrorgate.tables(table_id),
    CONSTRAINT backfill_state_is_known CHECK ((state = ANY (ARRAY['running'::text, 'done'::text, 'failed'::text, 'cancelled'::text]))),
    CONSTRAINT image_backfills_batches_total_check CHECK ((batches_total >= 0)),
    CONSTRAINT image_backfills_generation_check CHECK ((generation >= 1)),
    CONSTRAINT image_backfills_rows_done_check CHECK ((rows_done >= 0)),
    CONSTRAINT image_backfills_rows_total_check CHECK ((rows_total >= 0)),
    CONSTRAINT image_backfills_through_sequence_check CHECK ((through_sequence >= 0)),
    CONSTRAINT only_a_running_backfill_has_no_end CHECK (((state = 'running'::text) = (finished_at IS NULL)))
);

-- Tables that lag, with what is staged and not published. A column that a query does not read costs nothing.
CREATE VIEW mirrorgate.lag AS
 SELECT t.table_id,
    t.generation,
    t.state,
    c.published_through,
    c.last_sequence,
    (( SELECT sum(b.row_count) AS sum
           FROM mirrorgate.staged_blocks b
          WHERE ((b.table_id = t.table_id) AND (b.generation = t.generation) AND (b.first_sequence > c.published_through))))::bigint AS pending_rows,
    (( SELECT sum(b.payload_bytes) AS sum
           FROM mirrorgate.staged_blocks b
          WHERE ((b.table_id = t.table_id) AND (b.generation = t.generation) AND (b.first_sequence > c.published_through))))::bigint AS pending_bytes,
    ( SELECT b.staged_at
           FROM mirrorgate.staged_blocks b
          WHERE ((b.table_id = t.table_id) AND (b.generation = t.generation) AND (b.first_sequence > c.published_through))
          ORDER BY b.first_sequence
         LIMIT 1) AS oldest_at
   FROM (mirrorgate.tables t
     JOIN mirrorgate.table_counters c ON ((c.table_id = t.table_id)))
  WHERE (c.last_sequence > c.published_through);
