"""Create what schema.sql shows, and the rows that every gateway has from its start.

Kind: expand. No program is older than this revision.

Until the first release, a change of the schema edits schema.sql; a database of an earlier build is created again. The
release copies schema.sql beside this file and makes this revision read the copy. From then on, each change is a
revision, and schema.sql shows what all of them make.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from alembic import op

revision = "r0001"
down_revision = None

SCHEMA: Final = Path(__file__).parents[1] / "schema.sql"

ROWS: Final = """
COMMENT ON TABLE mirrorgate.alembic_version IS 'Schema revision of this database, kept by Alembic.';
COMMENT ON COLUMN mirrorgate.alembic_version.version_num IS 'Name of the last migration that was applied.';
INSERT INTO mirrorgate.installation DEFAULT VALUES;
INSERT INTO mirrorgate.payload_buckets (bucket, state, opened_at)
    VALUES (0, 'open', clock_timestamp()), (1, 'ahead', NULL)"""

PARTITION: Final = """
CREATE TABLE mirrorgate.block_payloads_{bucket} (
    LIKE mirrorgate.block_payloads INCLUDING DEFAULTS INCLUDING STORAGE,
    CONSTRAINT block_payloads_{bucket}_bucket CHECK (bucket = {bucket}),
    PRIMARY KEY (table_id, generation, first_sequence));
ALTER TABLE mirrorgate.block_payloads
    ATTACH PARTITION mirrorgate.block_payloads_{bucket} FOR VALUES FROM ({bucket}) TO ({bucket} + 1)"""


def upgrade() -> None:
    """Apply the revision."""
    schema = SCHEMA.read_text(encoding="utf-8").replace("CREATE SCHEMA mirrorgate;", "")
    for statement in (schema, *_purposes(schema), ROWS, PARTITION.format(bucket=0), PARTITION.format(bucket=1)):
        op.get_bind().exec_driver_sql(statement)


def _purposes(schema: str) -> Iterator[str]:
    """Yield the COMMENT statements for the lines that explain a function, a table or a column."""
    table = ""
    for indent, purpose, subject in re.findall(
        r"^( *)-- (.+)\n(?: *)(CREATE \w+ mirrorgate\.\S+|\"?\w+\"?)", schema, re.MULTILINE
    ):
        text = purpose.replace("'", "''")
        if indent:
            yield f"COMMENT ON COLUMN {table}.{subject} IS '{text}'"
            continue
        _, kind, name = subject.split()
        if kind == "TABLE":
            table = name
        yield f"COMMENT ON {kind} {name} IS '{text}'"
