"""Add the operations on tables (drop, recreate, rename, pause, flush, repair), and a log of them.

Kind: expand.

A table that is being dropped stores what follows. Each operation of an operator is an event, which stays when the table
is gone.
"""

from alembic import op

revision = "r0004"
down_revision = "r0003"

STATEMENTS = """
ALTER TABLE mirrorgate.tables
    ADD COLUMN drop_plan jsonb,
    ADD CONSTRAINT dropping_has_a_plan CHECK ((state = 'dropping') = (drop_plan IS NOT NULL));

ALTER TABLE mirrorgate.table_counters ADD COLUMN flush_through bigint NOT NULL DEFAULT 0;

ALTER TABLE mirrorgate.landing_files
    ADD COLUMN repair_requested boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT only_published_files_are_repaired CHECK (state = 'published' OR NOT repair_requested);
CREATE INDEX landing_files_to_repair ON mirrorgate.landing_files (table_id, generation, number)
    WHERE repair_requested;

CREATE TABLE mirrorgate.table_events (
    event_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    table_id bigint NOT NULL REFERENCES mirrorgate.tables,
    folded_name text NOT NULL,
    generation integer NOT NULL,
    happened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor text NOT NULL,
    action text NOT NULL,
    reason text,
    details jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX table_events_by_name ON mirrorgate.table_events (folded_name, event_id);
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
