"""A process that backfills one table and writes a line after each step, so that a test can kill it somewhere.

Arguments: address of the database, table, target of the mirror, row images that one step writes.
"""

import sys

from app.domain.model.names import TableName
from app.mirror.target import MirrorTarget
from app.mirror.typed_rows import VersionRows
from app.published.table_folders import PublishedTable
from app.staging.connection.database import open_engine
from app.staging.images.backfill import mirrored, payloads
from app.staging.images.backfill.run import backfill_images


def main() -> None:
    """Run until all rows have images."""
    url, table, target, keys_per_step = sys.argv[1:]
    mirrored.KEYS_PER_STEP = payloads.KEYS_PER_STEP = int(keys_per_step)  # type: ignore[misc]  # small steps, many kills

    def opened(name: TableName, version: int | None) -> VersionRows:
        return VersionRows.open(MirrorTarget(target), PublishedTable.at(name.folder), version)

    engine = open_engine(url, pool_size=2, application="killed backfill")
    backfill_images(engine, TableName.parse(table), lambda one: say(f"{one.step} {one.rows_done}"), opened)
    say("done")


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
