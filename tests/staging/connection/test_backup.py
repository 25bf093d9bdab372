"""A dump taken while the gateway runs, and the state of a restored database."""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.local.embedded import PrivatePostgres
from app.local.embedded.postgres import find_programs
from app.staging.connection.database import installation_id, open_engine
from app.staging.connection.schema_revision import migrate, require_migrated
from app.staging.ledger.leases import claim_table
from app.staging.tables.status import count_tables
from mirrorgate.errors import InvariantBroken
from tests.support.gateway_parts import current, stage_keys, staged_ids
from tests.support.postgres import sql
from tests.support.postgres.databases import create_database
from tests.support.postgres.ledger import Owned, owned_table, plan, publish, publish_all
from tests.support.postgres.retention import AT_ONCE, partition_states, partitions_of_payloads, purge
from tests.support.processes import REPOSITORY, finished


def run_page(program: str, **environment: str) -> None:
    """Run the only command of this program in docs/operate/backup.md as it is printed, with the tests' own Postgres."""
    page = (REPOSITORY / "docs" / "operate" / "backup.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", page, re.MULTILINE | re.DOTALL)
    [command] = [block for block in blocks if block.strip().startswith(f"{program} ")]
    path = f"{find_programs()}:{os.environ['PATH']}"
    ran = finished("sh", "-eu", "-c", command, environment={**os.environ, **environment, "PATH": path})
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.fixture
def empty_url(postgres: PrivatePostgres, request: pytest.FixtureRequest) -> str:
    name = f"restored_{abs(hash(request.node.name))}"
    return create_database(postgres.url, name)


@pytest.fixture
def owned(engine: sa.Engine) -> Owned:
    """Give an owned table after retention: one batch is purged, two are published and kept, two are pending."""
    owned = owned_table(engine, [1])
    publish(engine, owned, plan(engine, owned)[0])
    purge(engine)
    stage_keys(engine, owned.table, [2], [3])
    publish_all(engine, owned)
    stage_keys(engine, owned.table, [4], [5])
    return owned


@pytest.fixture
def restored(database_url: str, empty_url: str, owned: Owned, tmp_path: Path) -> Iterator[sa.Engine]:
    run_page("pg_dump", MIRRORGATE_DATABASE_URL=database_url, BACKUP=str(tmp_path / "dump"))
    run_page("pg_restore", RESTORED_DATABASE_URL=empty_url, BACKUP=str(tmp_path / "dump"))
    engine = open_engine(empty_url)
    yield engine
    engine.dispose()


def test_a_restored_database_is_the_dumped_one(
    engine: sa.Engine, restored: sa.Engine, empty_url: str, owned: Owned
) -> None:
    migrate(empty_url)
    require_migrated(restored)
    of_this_run = current(restored, "t").database_run
    assert current(restored, "t") == replace(current(engine, "t"), database_run=of_this_run)
    assert partitions_of_payloads(restored) == partitions_of_payloads(engine)
    assert partition_states(restored) == partition_states(engine)
    assert staged_ids(restored, owned.table) == [2, 3, 4, 5]
    with engine.begin() as one, restored.begin() as two:
        assert installation_id(one) == installation_id(two)
        here, there = (count_tables(connection, [owned.table.table_id]) for connection in (one, two))
    [(mine, theirs)] = zip(here.values(), there.values(), strict=True)
    assert (mine.staged_rows, mine.published_rows, mine.pending_rows) == (5, 3, 2)
    assert (theirs.staged_rows, theirs.published_rows, theirs.pending_rows) == (5, 3, 2)


def test_staging_publishing_and_retention_go_on_in_a_restored_database(restored: sa.Engine, owned: Owned) -> None:
    stage_keys(restored, current(restored, "t"), [6])
    with pytest.raises(InvariantBroken, match="stale_epoch"):
        plan(restored, owned)  # whoever held the table before has to claim it again
    epoch = sql.call(restored, claim_table, owned.table.table_id, owned.worker, held=owned.epoch)
    assert epoch == owned.epoch + 1
    owned = replace(owned, epoch=epoch)
    publish_all(restored, owned)
    stage_keys(restored, current(restored, "t"), [7])
    report = purge(restored, AT_ONCE)
    assert (report.dropped_partitions, report.moved_payloads) == (1, 1)
    assert staged_ids(restored, owned.table, first=7) == [7]


def test_the_rules_of_the_database_come_back_with_it(engine: sa.Engine, restored: sa.Engine) -> None:
    rules = """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'mirrorgate'::regnamespace ORDER BY 1, 2"""
    assert sql.rows(restored, rules) == sql.rows(engine, rules)
    defaults = "SELECT count(*) FROM pg_attrdef WHERE pg_get_expr(adbin, adrelid) LIKE '%current_bucket%'"
    assert sql.value(restored, defaults) == sql.value(engine, defaults) > 2
