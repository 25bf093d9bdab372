"""Allow a generation to begin with a seed file: number 1, no batch, no row.

Kind: expand.

The chain of files stays closed: a file beyond the first refers to its predecessor by number *and* last sequence, which
is 0 after a seed file. The first file begins with batch 1. A file that holds a batch holds rows.
"""

from alembic import op

revision = "r0009"
down_revision = "r0008"

STATEMENTS = """
ALTER TABLE mirrorgate.landing_files
    DROP CONSTRAINT landing_files_check,
    DROP CONSTRAINT landing_files_row_count_check,
    DROP CONSTRAINT landing_files_change_count_check;

-- Takes the chain's foreign key and check along.
ALTER TABLE mirrorgate.landing_files DROP COLUMN preceding_sequence;

ALTER TABLE mirrorgate.landing_files
    ADD COLUMN preceding_sequence bigint
        GENERATED ALWAYS AS (CASE WHEN number > 1 AND NOT begins_ledger THEN first_sequence - 1 END) STORED;

ALTER TABLE mirrorgate.landing_files
    ADD CONSTRAINT only_a_seed_is_empty CHECK (CASE WHEN last_sequence >= first_sequence
        THEN row_count >= 1 AND change_count >= 1
        ELSE number = 1 AND last_sequence = 0 AND row_count = 0 AND change_count = 0 END),
    ADD CONSTRAINT the_first_file_begins_with_batch_one CHECK (number > 1 OR first_sequence = 1),
    ADD CONSTRAINT both_or_neither_precede CHECK ((preceding_number IS NULL) = (preceding_sequence IS NULL)),
    ADD CONSTRAINT files_follow_each_other FOREIGN KEY (table_id, generation, preceding_number, preceding_sequence)
        REFERENCES mirrorgate.landing_files (table_id, generation, number, last_sequence);
"""


def upgrade() -> None:
    """Apply the revision."""
    op.execute(STATEMENTS)
