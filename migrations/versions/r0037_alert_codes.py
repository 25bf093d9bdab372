"""Keep since when an alert has its present code, and alert of a full backlog apart from one near its limit.

Kind: expand. Programs of the revision before continue to work, but stop telling alerts at the first full backlog.
"""

from alembic import op

revision = "r0037"
down_revision = "r0034"

STATEMENTS = """
ALTER TABLE mirrorgate.alerts
    ADD COLUMN code_since timestamptz NOT NULL DEFAULT now(),
    DROP CONSTRAINT alert_kind_is_known,
    ADD CONSTRAINT alert_kind_is_known CHECK (kind IN
        ('part', 'table_quarantined', 'table_failing', 'fabric_table', 'dead_letters', 'backlog', 'backlog_full'));
COMMENT ON COLUMN mirrorgate.alerts.code_since IS 'When the present code was first seen.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
