"""Keep the alerts that were found and told, so that API processes tell each of them once.

Kind: expand. Programs of the revision before continue to work.
"""

from alembic import op

revision = "r0032"
down_revision = "r0031"

STATEMENTS = """
CREATE TABLE mirrorgate.alerts (
    kind text NOT NULL CONSTRAINT alert_kind_is_known CHECK (kind IN
        ('part', 'table_quarantined', 'table_failing', 'fabric_table', 'dead_letters', 'backlog')),
    subject text NOT NULL,
    severity text NOT NULL CONSTRAINT alert_severity_is_known CHECK (severity IN ('critical', 'warning')),
    code text NOT NULL,
    detail text NOT NULL,
    remedy text NOT NULL,
    since timestamptz NOT NULL,
    told_code text,
    PRIMARY KEY (kind, subject)
);
COMMENT ON TABLE mirrorgate.alerts IS 'Troubles that API processes have found, for MIRRORGATE_ALERT_URL.';
COMMENT ON COLUMN mirrorgate.alerts.kind IS 'What the alert is about.';
COMMENT ON COLUMN mirrorgate.alerts.subject IS 'Name of the table, or of the part of the gateway.';
COMMENT ON COLUMN mirrorgate.alerts.severity IS 'critical or warning.';
COMMENT ON COLUMN mirrorgate.alerts.code IS 'Error code of the cause.';
COMMENT ON COLUMN mirrorgate.alerts.detail IS 'What is wrong.';
COMMENT ON COLUMN mirrorgate.alerts.remedy IS 'What to do.';
COMMENT ON COLUMN mirrorgate.alerts.since IS 'When the trouble was first seen.';
COMMENT ON COLUMN mirrorgate.alerts.told_code IS 'Code with which it was last told; null if it was never told.';
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
