"""Add the landing zone that the database publishes into, and requests to rewrite a damaged folder marker.

Kind: expand. Older programs neither read nor write them: their drains publish into whatever zone they are given.
"""

from alembic import op

revision = "r0018"
down_revision = "r0017"

STATEMENTS = """
CREATE TABLE mirrorgate.landing_zone (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    zone_id uuid NOT NULL,
    location text NOT NULL CHECK (octet_length(location) BETWEEN 1 AND 8192),
    since timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE mirrorgate.landing_zone IS
    'The zone of this gateway: the id in its _scratchPad/_gateway.json, and the address under which it was last used.';

ALTER TABLE mirrorgate.tables ADD COLUMN rewrite_marker boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN mirrorgate.tables.rewrite_marker IS
    'An operator asked the next owner to write _gateway.json of the table folder again.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
