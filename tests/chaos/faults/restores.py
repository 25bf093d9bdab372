"""Random histories that end with the database restored to an older point, with a newer landing zone.

Whatever the backup holds, however files were cut, and whatever mirroring has consumed: no number is published a second
time, no file is overwritten, and a table either continues with all that the backup accepted or stops and says why.
"""

import random
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Final
from uuid import uuid4

import psycopg
import sqlalchemy as sa
from structlog.testing import capture_logs

from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber, TableState
from app.landing.landed_state import CONSUMED_FOLDERS
from app.local.embedded import PrivatePostgres
from app.staging.connection.database import open_engine
from app.staging.connection.schema_revision import migrate
from tests.chaos.checks.oracle import Result, Violation
from tests.support.gateway_parts import current, registered, stage_keys, state_reason
from tests.support.postgres import sql
from tests.support.postgres.databases import clone_database, create_database
from tests.support.samples.schemas import schema_of
from tests.support.small_drain import publish_pending, small_drain

TABLES: Final = ("a", "b", "c", "d")
_ID: Final = schema_of({"id": "int64"}, ["id"])


class RestoredHistory:
    """One history in a database and a folder of its own, from one seed."""

    def __init__(self, database_url: str, place: Path, seed: int) -> None:
        self._url, self._zone, self._source = database_url, place / "landing-zone", random.Random(seed)
        self._next_key = 1
        self.outcomes: Counter[str] = Counter()
        self.files = 0
        """Files that were compared before and after."""

    def run(self) -> None:
        """Go on for a while, back up, go on, restore, go on. Raises Violation."""
        engine = open_engine(self._url)
        for name in TABLES:
            registered(engine, name, _ID)
        self._go_on(engine, self._url, steps=self._source.randrange(2, 8))
        self._accept(engine, self._source.randrange(4))
        engine.dispose()
        backup = clone_database(self._url, f"restored_{uuid4().hex}")
        engine = open_engine(self._url)
        self._go_on(engine, self._url, steps=self._source.randrange(6))
        engine.dispose()
        for name in TABLES:
            self._consume(name)
        before = {name: self._files(name) for name in TABLES}
        restored = open_engine(backup)
        sql.run(restored, "DELETE FROM mirrorgate.workers")
        self._go_on(restored, backup, steps=4)
        for name in TABLES:
            self._judge(restored, name, before[name])
        restored.dispose()

    def _go_on(self, engine: sa.Engine, url: str, *, steps: int) -> None:
        for _ in range(steps):
            self._accept(engine, self._source.randrange(1, 4))
            with small_drain(url, self._zone, rows=self._source.choice((1, 3, 100))) as cycle:
                publish_pending(cycle)
            sql.run(engine, "DELETE FROM mirrorgate.workers")

    def _accept(self, engine: sa.Engine, batches: int) -> None:
        for _ in range(batches):
            stage_keys(engine, current(engine, self._source.choice(TABLES)), [self._next_key])
            self._next_key += 1

    def _consume(self, name: str) -> None:
        """Mirroring takes in files in order, maybe all; a week later it has removed the oldest."""
        folder = self._zone / name
        numbers = sorted(path.name for path in folder.glob("*.parquet"))
        moved = numbers[: self._source.randrange(len(numbers) + 1)]
        for file in moved:
            processed = folder / self._source.choice(CONSUMED_FOLDERS)
            processed.mkdir(exist_ok=True)
            (folder / file).rename(processed / file)
        removed = moved[: self._source.randrange(len(moved) + 1)] if len(moved) < len(numbers) else []
        for processed in CONSUMED_FOLDERS:
            for file in removed:
                (folder / processed / file).unlink(missing_ok=True)

    def _files(self, name: str) -> dict[str, tuple[str, bytes]]:
        """Return the location and content of each file number."""
        found: dict[str, tuple[str, bytes]] = {}
        for place in ("", *CONSUMED_FOLDERS):
            for path in sorted((self._zone / name / place).glob("*.parquet")):
                if path.name in found:
                    raise Violation(f"{name}: number {path.stem} stands twice")
                found[path.name] = (place, path.read_bytes())
        return found

    def _judge(self, engine: sa.Engine, name: str, before: dict[str, tuple[str, bytes]]) -> None:
        after, table = self._files(name), current(engine, name)
        self.files += len(after)
        if changed := [file for file, seen in before.items() if after.get(file) != seen]:
            raise Violation(f"{name}: changed after the restore: {changed}")
        new = sorted(after.keys() - before.keys())
        if table.state is TableState.QUARANTINED:
            reason = state_reason(engine, name)
            self.outcomes[reason.partition(":")[0]] += 1
            if new or not reason.startswith("ledger_behind_zone: "):
                raise Violation(f"{name}: {reason}; published after the restore: {new}")
            return
        self.outcomes["goes on"] += 1
        counters = "SELECT recorded_file_number FROM mirrorgate.table_counters WHERE table_id = :id"
        recorded = sql.value(engine, counters, id=table.table_id)
        first = max((int(file[:20]) for file in before), default=None)
        expected = [file_name(FileNumber(number)) for number in range((first or 0) + 1, recorded + 1)]
        if first is not None and new != expected:
            raise Violation(f"{name}: published {new} after the restore instead of {expected}")


def run_restores(place: Path, seed: int, seconds: float) -> Result:
    """Run histories from consecutive seeds for so long, each in a new database; the result names a violation."""
    result = Result()
    place.mkdir(parents=True)
    end = time.monotonic() + seconds
    settings = {"fsync": "off", "max_connections": "100"}
    with capture_logs(), PrivatePostgres(place / "postgres", settings) as postgres:  # quarantines are expected here
        with psycopg.connect(postgres.administration_url, autocommit=True) as connection:
            connection.execute("ALTER ROLE gateway CREATEDB")
        migrate(create_database(postgres.url, "template_mirrorgate"))
        for number in count(seed):
            name = f"history_{number}"
            url = create_database(postgres.url, name, template="template_mirrorgate")
            history = RestoredHistory(url, place / name, number)
            try:
                history.run()
            except Violation as violation:
                result.violation = f"seed {number}: {violation}"
            result.events.update({f"restored: {what}": times for what, times in history.outcomes.items()})
            result.files += history.files
            if result.violation or time.monotonic() > end:
                return result
    return result
