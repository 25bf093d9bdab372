"""Create dead letters: rejected messages of accepted requests, as the source wrote them.

Kind: expand. Older programs do not know the table; they read only tables that do not use its option.

A letter waits, or somebody has settled it. A replayed letter names the batch that has its message.
"""

from alembic import op

revision = "r0011"
down_revision = "r0010"

STATEMENTS = """
CREATE TABLE mirrorgate.dead_letters (
    letter_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    table_id bigint NOT NULL REFERENCES mirrorgate.tables,
    generation integer NOT NULL CHECK (generation >= 1),
    format text NOT NULL CHECK (format IN ('arcion', 'arcion_csv', 'replicate')),
    reading jsonb NOT NULL,
    message bytea NOT NULL CHECK (octet_length(message) <= 1048576),
    errors jsonb NOT NULL CHECK (jsonb_typeof(errors) = 'array' AND jsonb_array_length(errors) >= 1),
    message_index integer NOT NULL CHECK (message_index >= 0),
    principal text NOT NULL,
    request_name text,
    producer_sequence bigint CHECK (producer_sequence >= 1),
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'replayed', 'discarded')),
    settled_at timestamptz,
    settled_by text,
    corrected boolean NOT NULL DEFAULT false,
    replayed_sequence bigint CHECK (replayed_sequence >= 1),
    CONSTRAINT a_number_has_a_producer CHECK (producer_sequence IS NULL OR request_name IS NOT NULL),
    CONSTRAINT waiting_or_settled CHECK ((state = 'waiting') = (settled_at IS NULL)),
    CONSTRAINT settled_by_somebody CHECK ((settled_at IS NULL) = (settled_by IS NULL)),
    CONSTRAINT replayed_in_a_batch CHECK ((state = 'replayed') = (replayed_sequence IS NOT NULL)),
    CONSTRAINT only_a_replay_corrects CHECK (state = 'replayed' OR NOT corrected)
);
COMMENT ON COLUMN mirrorgate.dead_letters.reading IS 'What the request said of how to read the message.';
COMMENT ON COLUMN mirrorgate.dead_letters.request_name IS
    'The idempotency key, or the producer where there is a producer sequence.';
CREATE INDEX dead_letters_by_table ON mirrorgate.dead_letters (table_id, letter_id);
CREATE INDEX waiting_dead_letters ON mirrorgate.dead_letters (table_id, letter_id) WHERE state = 'waiting';
CREATE INDEX settled_dead_letters ON mirrorgate.dead_letters (settled_at) WHERE state <> 'waiting';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
