"""Keep the sessions of the console, and a history of rates and lag for its plots.

Kind: expand. Programs of the revision before continue to work; they have no console.

A session is stored by the hash of its token, so what the database holds opens no session. The history has one row a
minute for all tables: rows for each table and minute would be 100 MB a day at 1,000 tables (decision 0058).
"""

from alembic import op

revision = "r0030"
down_revision = "r0028"

STATEMENTS = """
CREATE TABLE mirrorgate.console_sessions (
    session_hash bytea PRIMARY KEY CHECK (octet_length(session_hash) = 32),
    subject text NOT NULL CHECK (length(subject) <= 256),
    proof bytea CHECK (octet_length(proof) = 32),
    grants jsonb CHECK (length(grants::text) <= 65536),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_used_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    CHECK ((proof IS NULL) <> (grants IS NULL))
);
CREATE INDEX console_sessions_by_subject ON mirrorgate.console_sessions (subject, created_at);
COMMENT ON TABLE mirrorgate.console_sessions IS
    'Browsers that are signed in to the console.';
COMMENT ON COLUMN mirrorgate.console_sessions.session_hash IS
    'SHA-256 of the token in the browser''s cookie, which is not stored.';
COMMENT ON COLUMN mirrorgate.console_sessions.subject IS
    'Id of the key that signed in, or oidc: and the subject of the token.';
COMMENT ON COLUMN mirrorgate.console_sessions.proof IS
    'Binds the session to the secret that signed in: HMAC of the hash of the secret under the token. NULL for a token.';
COMMENT ON COLUMN mirrorgate.console_sessions.grants IS
    'What the token of the identity provider granted; NULL for a key, whose rights are read with each request.';
COMMENT ON COLUMN mirrorgate.console_sessions.created_at IS
    'When the browser signed in.';
COMMENT ON COLUMN mirrorgate.console_sessions.last_used_at IS
    'When the session was last used, exact to a minute.';
COMMENT ON COLUMN mirrorgate.console_sessions.expires_at IS
    'When the session ends, used or not.';

CREATE TABLE mirrorgate.history (
    minute timestamptz PRIMARY KEY,
    sampled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seconds double precision NOT NULL CHECK (seconds > 0),
    accepted_rows bigint NOT NULL DEFAULT 0,
    published_rows bigint NOT NULL DEFAULT 0,
    pending_rows bigint NOT NULL DEFAULT 0,
    oldest_seconds double precision NOT NULL DEFAULT 0,
    table_ids bigint[] NOT NULL DEFAULT '{}',
    table_accepted_rows bigint[] NOT NULL DEFAULT '{}',
    table_published_rows bigint[] NOT NULL DEFAULT '{}',
    table_pending_rows bigint[] NOT NULL DEFAULT '{}',
    table_oldest_seconds real[] NOT NULL DEFAULT '{}'
);
COMMENT ON TABLE mirrorgate.history IS
    'What the tables did in each minute, for the plots of the console; idle tables are left out.';
COMMENT ON COLUMN mirrorgate.history.minute IS
    'Minute that the sample is for; one process claims it.';
COMMENT ON COLUMN mirrorgate.history.sampled_at IS
    'When the sample was taken.';
COMMENT ON COLUMN mirrorgate.history.seconds IS
    'Seconds since the sample before, in which the accepted and published rows were counted.';
COMMENT ON COLUMN mirrorgate.history.accepted_rows IS
    'Landing rows of all tables that were accepted since the sample before.';
COMMENT ON COLUMN mirrorgate.history.published_rows IS
    'Landing rows of all tables that were published since the sample before.';
COMMENT ON COLUMN mirrorgate.history.pending_rows IS
    'Landing rows of all tables that were not published at the sample.';
COMMENT ON COLUMN mirrorgate.history.oldest_seconds IS
    'Age of the oldest batch of any table that was not published at the sample.';
COMMENT ON COLUMN mirrorgate.history.table_ids IS
    'Tables with activity or lag; the other arrays have one element for each of them, in this order.';
COMMENT ON COLUMN mirrorgate.history.table_accepted_rows IS
    'Accepted rows of each table since the sample before.';
COMMENT ON COLUMN mirrorgate.history.table_published_rows IS
    'Published rows of each table since the sample before.';
COMMENT ON COLUMN mirrorgate.history.table_pending_rows IS
    'Rows of each table that were not published at the sample.';
COMMENT ON COLUMN mirrorgate.history.table_oldest_seconds IS
    'Age of the oldest batch of each table that was not published at the sample.';

CREATE TABLE mirrorgate.history_marks (
    table_id bigint PRIMARY KEY REFERENCES mirrorgate.tables (table_id),
    generation integer NOT NULL,
    accepted_rows bigint NOT NULL,
    file_number bigint NOT NULL
);
COMMENT ON TABLE mirrorgate.history_marks IS
    'Where the counters of each table were at the last sample of the history.';
COMMENT ON COLUMN mirrorgate.history_marks.table_id IS
    'Table that the row belongs to.';
COMMENT ON COLUMN mirrorgate.history_marks.generation IS
    'Generation of the table at the sample.';
COMMENT ON COLUMN mirrorgate.history_marks.accepted_rows IS
    'Landing rows that the table had accepted.';
COMMENT ON COLUMN mirrorgate.history_marks.file_number IS
    'Last file that the table had published.';
INSERT INTO mirrorgate.history_marks
SELECT t.table_id, t.generation, c.accepted_rows, c.recorded_file_number
FROM mirrorgate.tables t JOIN mirrorgate.table_counters c USING (table_id);
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
