"""A drain that backfills one table and writes a line after each step, so that a test can kill it somewhere.

Arguments: address of the database, table, and row images that one step writes.
"""

import sys

from app.staging import images
from app.staging.connection.database import open_engine
from app.staging.images import Backfill
from tests.support.backfills import carry_out


def main() -> None:
    """Run until all rows have images."""
    url, table, keys_per_step = sys.argv[1:]
    images.KEYS_PER_STEP = int(keys_per_step)  # type: ignore[misc]  # small steps, many kills

    def show(backfill: Backfill) -> None:
        say(f"{backfill.rows_done}")

    carry_out(open_engine(url, pool_size=2, application="killed backfill"), table, show)
    say("done")


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
