"""Bound the texts that reach an index, and store the length of each drain's lease.

Kind: expand. Programs of r0011 continue to work: they write no length, which then follows from the lease's two times.

An index row takes at most a third of a page, and a longer text fails its whole transaction, which requests share. The
constraints hold for new rows only, so that the migration reads nothing.
"""

from alembic import op

revision = "r0012"
down_revision = "r0011"

STATEMENTS = """
ALTER TABLE mirrorgate.workers ADD COLUMN lease_seconds double precision CHECK (lease_seconds > 0);

ALTER TABLE mirrorgate.source_positions
    ADD CONSTRAINT source_task_is_bounded CHECK (octet_length(task) <= 1024) NOT VALID;
ALTER TABLE mirrorgate.table_sources
    ADD CONSTRAINT source_name_is_bounded CHECK (octet_length(folded_source) <= 1024) NOT VALID;
ALTER TABLE mirrorgate.producers
    ADD CONSTRAINT producer_is_bounded CHECK (octet_length(producer) <= 255 AND octet_length(principal) <= 1024)
    NOT VALID;
ALTER TABLE mirrorgate.request_receipts
    ADD CONSTRAINT request_name_is_bounded CHECK (octet_length(name) <= 255 AND octet_length(principal) <= 1024)
    NOT VALID;
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
