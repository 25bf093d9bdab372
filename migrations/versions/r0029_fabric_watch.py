"""Keep what Fabric's API says about the mirrored database, when it is asked next, and which tables have failed.

Kind: expand. Older drains store the status of tables from the monitoring file alone, and leave the new columns as they
are.
"""

from alembic import op

revision = "r0029"
down_revision = "r0033"

STATEMENTS = """
CREATE TABLE mirrorgate.fabric_database (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    watched_since timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_poll_at timestamptz NOT NULL,
    state text,
    state_since timestamptz,
    error text,
    whose text CONSTRAINT fault_is_someones CHECK (whose IN ('user', 'system', 'unknown')),
    answered_at timestamptz,
    tables_at timestamptz,
    problem_code text,
    problem_detail text,
    problem_remedy text,
    CONSTRAINT an_answer_has_a_state CHECK (
        (state IS NULL) = (answered_at IS NULL) AND (state IS NULL) = (state_since IS NULL)),
    CONSTRAINT a_problem_is_whole CHECK (
        (problem_code IS NULL) = (problem_detail IS NULL) AND (problem_code IS NULL) = (problem_remedy IS NULL))
);
COMMENT ON TABLE mirrorgate.fabric_database IS
    'What the API of Fabric last said about the mirrored database. One row where drains ask it, else none.';
COMMENT ON COLUMN mirrorgate.fabric_database.only_row IS 'Always true, so that the primary key allows one row.';
COMMENT ON COLUMN mirrorgate.fabric_database.watched_since IS 'When a drain first asked.';
COMMENT ON COLUMN mirrorgate.fabric_database.next_poll_at IS
    'When a drain may ask again; moved forward by the one that asks.';
COMMENT ON COLUMN mirrorgate.fabric_database.state IS 'State of the database, in the words of Fabric.';
COMMENT ON COLUMN mirrorgate.fabric_database.state_since IS 'When this state was first seen.';
COMMENT ON COLUMN mirrorgate.fabric_database.error IS 'Error of the database, as <code>: <message>.';
COMMENT ON COLUMN mirrorgate.fabric_database.whose IS 'Who can correct the error: user, system or unknown.';
COMMENT ON COLUMN mirrorgate.fabric_database.answered_at IS 'When the API last answered.';
COMMENT ON COLUMN mirrorgate.fabric_database.tables_at IS 'When the API last listed the tables.';
COMMENT ON COLUMN mirrorgate.fabric_database.problem_code IS
    'Error code of the last question if it failed, else null.';
COMMENT ON COLUMN mirrorgate.fabric_database.problem_detail IS 'Why the last question failed.';
COMMENT ON COLUMN mirrorgate.fabric_database.problem_remedy IS 'What to do about that.';

ALTER TABLE mirrorgate.mirror_states
    ADD COLUMN has_failed boolean NOT NULL DEFAULT false,
    ADD COLUMN whose text CONSTRAINT fault_is_someones CHECK (whose IN ('user', 'system', 'unknown'));
COMMENT ON COLUMN mirrorgate.mirror_states.has_failed IS 'Whether Fabric has given the table up.';
COMMENT ON COLUMN mirrorgate.mirror_states.whose IS 'Who can correct the error: user, system or unknown.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
