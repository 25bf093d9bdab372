"""Keep load sessions, the batches that they stage, and the keys that the stream deletes while one is open.

Kind: expand. Programs of the revision before continue to work; begin a load after the last of them has stopped, because
their deletes are not kept for it.
"""

from alembic import op

revision = "r0035"
down_revision = "r0029"

STATEMENTS = """
CREATE TABLE mirrorgate.loads (
    load_id uuid PRIMARY KEY,
    table_id bigint NOT NULL REFERENCES mirrorgate.tables (table_id),
    generation integer NOT NULL,
    mode text NOT NULL CONSTRAINT load_mode_is_known CHECK (mode IN ('full', 'append')),
    state text NOT NULL DEFAULT 'open' CONSTRAINT load_state_is_known CHECK
        (state IN ('open', 'completing', 'completed', 'aborted', 'expired')),
    begin_sequence bigint NOT NULL CHECK (begin_sequence >= 1),
    batches bigint NOT NULL DEFAULT 0,
    rows bigint NOT NULL DEFAULT 0,
    superseded bigint NOT NULL DEFAULT 0,
    deletes bigint NOT NULL DEFAULT 0,
    scanned_through bytea,
    idle_seconds double precision NOT NULL CHECK (idle_seconds > 0),
    started_by text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    ended_at timestamptz,
    CONSTRAINT ended_load_has_a_time CHECK ((state IN ('open', 'completing')) = (ended_at IS NULL)),
    CONSTRAINT only_full_loads_delete CHECK (mode = 'full' OR (state <> 'completing' AND deletes = 0))
);
CREATE UNIQUE INDEX one_open_load_per_table ON mirrorgate.loads (table_id) WHERE state IN ('open', 'completing');
CREATE INDEX loads_by_table ON mirrorgate.loads (table_id, started_at);
COMMENT ON TABLE mirrorgate.loads IS 'Load sessions: reloads of tables beside their streams of changes.';
COMMENT ON COLUMN mirrorgate.loads.load_id IS 'Id of the load, which its requests name.';
COMMENT ON COLUMN mirrorgate.loads.table_id IS 'Table that the row belongs to.';
COMMENT ON COLUMN mirrorgate.loads.generation IS 'Generation of the table; the load ends with it.';
COMMENT ON COLUMN mirrorgate.loads.mode IS 'full deletes the rows that the load does not have, append deletes none.';
COMMENT ON COLUMN mirrorgate.loads.state IS 'open, completing, completed, aborted or expired.';
COMMENT ON COLUMN mirrorgate.loads.begin_sequence IS 'First batch sequence after the load began.';
COMMENT ON COLUMN mirrorgate.loads.batches IS 'Batches that the load has staged.';
COMMENT ON COLUMN mirrorgate.loads.rows IS 'Rows of the load that land.';
COMMENT ON COLUMN mirrorgate.loads.superseded IS 'Rows of the load whose keys the stream changed meanwhile.';
COMMENT ON COLUMN mirrorgate.loads.deletes IS 'Rows that completing the load has deleted.';
COMMENT ON COLUMN mirrorgate.loads.scanned_through IS 'Last row key that completing the load has looked at.';
COMMENT ON COLUMN mirrorgate.loads.idle_seconds IS 'The load expires this long after the last request with it.';
COMMENT ON COLUMN mirrorgate.loads.started_by IS 'Id of the key that began the load.';
COMMENT ON COLUMN mirrorgate.loads.started_at IS 'When the load began.';
COMMENT ON COLUMN mirrorgate.loads.expires_at IS 'When the load expires unless a request uses it.';
COMMENT ON COLUMN mirrorgate.loads.ended_at IS 'When the load was completed or aborted, or found to be expired.';

CREATE TABLE mirrorgate.load_batches (
    load_id uuid NOT NULL REFERENCES mirrorgate.loads (load_id) ON DELETE CASCADE,
    sequence bigint NOT NULL,
    PRIMARY KEY (load_id, sequence)
);
COMMENT ON TABLE mirrorgate.load_batches IS 'Batches of open loads; images of other batches are the stream''s.';
COMMENT ON COLUMN mirrorgate.load_batches.load_id IS 'Load that staged the batch.';
COMMENT ON COLUMN mirrorgate.load_batches.sequence IS 'Sequence of the batch.';

CREATE TABLE mirrorgate.load_deletes (
    load_id uuid NOT NULL REFERENCES mirrorgate.loads (load_id) ON DELETE CASCADE,
    row_key bytea NOT NULL,
    PRIMARY KEY (load_id, row_key)
);
COMMENT ON TABLE mirrorgate.load_deletes IS 'Keys that the stream deleted while a load was open.';
COMMENT ON COLUMN mirrorgate.load_deletes.load_id IS 'Load that was open.';
COMMENT ON COLUMN mirrorgate.load_deletes.row_key IS 'Row key, as in row_images.';

ALTER TABLE mirrorgate.table_counters ADD COLUMN open_load uuid;
COMMENT ON COLUMN mirrorgate.table_counters.open_load IS 'Load that may be open, read with the sequence lock.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
