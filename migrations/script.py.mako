"""${message}

Kind: expand (adds only; the previous program version keeps working) or contract (removes what no version uses).
"""

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    op.execute("")
