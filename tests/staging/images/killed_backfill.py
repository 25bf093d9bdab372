"""A process that backfills one table and writes a line after each step, so that a test can kill it somewhere.

Arguments: address of the database, table, target of the mirror, row images that one step writes, and `asked` to carry
out what drains are asked for.
"""

import sys
from typing import Final
from uuid import UUID

from app.domain.model.names import TableName
from app.mirror.target import MirrorTarget
from app.mirror.typed_rows import version_reader
from app.staging.connection.database import open_engine
from app.staging.images.backfill import mirrored, payloads
from app.staging.images.backfill.progress import Backfill
from app.staging.images.backfill.run import backfill_images, run_asked
from tests.support.postgres.ledger import claimed

DRAIN: Final = UUID(int=1)


def main() -> None:
    """Run until all rows have images."""
    url, table, target, keys_per_step, *asked = sys.argv[1:]
    mirrored.KEYS_PER_STEP = payloads.KEYS_PER_STEP = int(keys_per_step)  # type: ignore[misc]  # small steps, many kills

    def show(backfill: Backfill) -> None:
        say(f"{backfill.step} {backfill.rows_done}")

    engine, reader = open_engine(url, pool_size=2, application="killed backfill"), version_reader(MirrorTarget(target))
    if asked:
        run_asked(engine, claimed(engine, table, DRAIN), DRAIN, show, reader)
    else:
        backfill_images(engine, TableName.parse(table), show, reader)
    say("done")


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
