"""Store layouts: where the messages of a custom Replicate format have what the usual ones have.

Kind: expand. Programs of r0026 continue to work, and reject the parameter `layout`.

The database checks the name and bounds the size of a layout; what its parts mean, the gateway checks before it stores
one.
"""

from alembic import op

revision = "r0027"
down_revision = "r0026"

STATEMENTS = """
CREATE TABLE mirrorgate.layouts (
    name text PRIMARY KEY CONSTRAINT layout_name_is_plain CHECK (name ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
    layout jsonb NOT NULL
        CONSTRAINT layout_is_an_object CHECK (jsonb_typeof(layout) = 'object')
        CONSTRAINT layout_is_bounded CHECK (octet_length(layout::text) <= 65536),
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_by text NOT NULL CONSTRAINT layout_author_is_bounded CHECK (octet_length(changed_by) <= 300)
);
COMMENT ON TABLE mirrorgate.layouts IS
    'Layouts by name: where Replicate messages of a custom format have images, headers and table.';
COMMENT ON COLUMN mirrorgate.layouts.name IS 'Name, as the parameter layout of a change request gives it.';
COMMENT ON COLUMN mirrorgate.layouts.layout IS 'The places of the parts of a message, and the names of operations.';
COMMENT ON COLUMN mirrorgate.layouts.changed_at IS 'When the layout was last changed.';
COMMENT ON COLUMN mirrorgate.layouts.changed_by IS 'Key id or token subject that changed it last.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
