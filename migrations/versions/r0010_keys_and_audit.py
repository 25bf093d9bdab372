"""Add former secrets of API keys, the time of their last use, and the audit of operations and rejections.

Kind: expand. Programs of r0009 continue to work: they accept a rotated key's new secret, not the former one.

`api_keys.secret_hash` stays a key's newest secret. Audit events take their ids from the sequence of table events, so
that both can be read in one order and no operation is stored twice.
"""

from alembic import op

revision = "r0010"
down_revision = "r0009"

STATEMENTS = """
ALTER TABLE mirrorgate.api_keys ADD COLUMN last_used_at timestamptz;

CREATE TABLE mirrorgate.former_key_secrets (
    key_id text NOT NULL REFERENCES mirrorgate.api_keys ON DELETE CASCADE,
    secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
    valid_until timestamptz NOT NULL,
    PRIMARY KEY (key_id, secret_hash)
);
COMMENT ON TABLE mirrorgate.former_key_secrets IS
    'Secrets that a rotation has replaced; each goes on working for its overlap.';

ALTER TABLE mirrorgate.table_events ADD COLUMN request_id text;

CREATE TABLE mirrorgate.audit_events (
    event_id bigint PRIMARY KEY DEFAULT nextval('mirrorgate.table_events_event_id_seq'),
    happened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    request_id text,
    subject text,
    action text NOT NULL,
    folded_name text,
    status smallint,
    code text,
    times bigint NOT NULL DEFAULT 1 CHECK (times >= 1),
    details jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT a_refusal_has_status_and_code CHECK ((status IS NULL) = (code IS NULL)),
    CONSTRAINT refusals_are_counted_by_the_minute
        CHECK (code IS NULL OR extract(second FROM happened_at) = 0),
    CONSTRAINT an_act_is_one CHECK (code IS NOT NULL OR (times = 1 AND subject IS NOT NULL))
);
COMMENT ON TABLE mirrorgate.audit_events IS
    'Refusals, counted by the minute, and acts on keys and registrations; acts on tables are in table_events.';
CREATE UNIQUE INDEX one_row_per_refusal_and_minute
    ON mirrorgate.audit_events (happened_at, action, subject, folded_name, status, code)
    NULLS NOT DISTINCT WHERE code IS NOT NULL;
CREATE INDEX audit_events_by_age ON mirrorgate.audit_events (happened_at);
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
