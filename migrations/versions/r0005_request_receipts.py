"""Create the receipts of requests that producers can repeat, by idempotency key or by producer sequence.

Kind: expand.

A key or a producer's number has one receipt. A producer's numbers are dense, because each is checked under the lock of
the producer's row.
"""

from alembic import op

revision = "r0005"
down_revision = "r0004"

STATEMENTS = """
CREATE TABLE mirrorgate.producers (
    principal text NOT NULL,
    producer text NOT NULL,
    last_sequence bigint NOT NULL DEFAULT 0 CHECK (last_sequence >= 0),
    PRIMARY KEY (principal, producer)
);

CREATE TABLE mirrorgate.request_receipts (
    principal text NOT NULL,
    name text NOT NULL,
    producer_sequence bigint NOT NULL CHECK (producer_sequence >= 0),
    fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
    answer jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (principal, name, producer_sequence)
);
COMMENT ON COLUMN mirrorgate.request_receipts.producer_sequence IS '0: the name is an idempotency key.';
CREATE INDEX request_receipts_by_age ON mirrorgate.request_receipts (created_at);
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
