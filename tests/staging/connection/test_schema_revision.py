"""Migrating a database in use, and programs of two versions on one schema."""

import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from app.local.embedded import PrivatePostgres
from app.staging.connection import schema_revision
from app.staging.connection.database import open_engine
from app.staging.connection.schema_revision import MIGRATIONS, migrate, program_revision, require_migrated
from mirrorgate.cli.main import app
from mirrorgate.errors import Code, Misconfigured, TemporarilyUnavailable
from tests.support.gateway_parts import current, registered, stage_keys
from tests.support.postgres import sql
from tests.support.postgres.databases import create_database
from tests.support.postgres.ledger import Owned, claim_by, publish_all
from tests.support.postgres.retention import count, purge
from tests.support.samples.schemas import schema_of
from tests.support.waiting import wait_until

BASELINE = "r0001"

NEXT_REVISION = '''"""Add a column to the staged blocks.

Kind: expand. Programs of the baseline continue to work.
"""

from alembic import op

revision = "r0002"
down_revision = "r0001"


def upgrade() -> None:
    """Apply the revision."""
    op.execute("LOCK TABLE mirrorgate.block_payloads, mirrorgate.staged_blocks IN ACCESS EXCLUSIVE MODE")
    op.execute("ALTER TABLE mirrorgate.staged_blocks ADD COLUMN note text")
'''


class Programs:
    """Make this process the program of the baseline, or the one after it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch
        shutil.copytree(MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "versions" / "r0002_next.py").write_text(NEXT_REVISION, encoding="utf-8")

    def run_next(self) -> None:
        self._switch(self._folder)

    def run_baseline(self) -> None:
        self._switch(MIGRATIONS)

    def _switch(self, migrations: Path) -> None:
        self._monkeypatch.setattr(schema_revision, "MIGRATIONS", migrations)
        program_revision.cache_clear()
        schema_revision._known_revisions.cache_clear()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    programs = Programs(tmp_path / "migrations", monkeypatch)
    yield programs
    programs.run_baseline()


@pytest.fixture
def old(postgres: PrivatePostgres, request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    """Give a database of the baseline with a table `t` and one staged block."""
    name = f"old_{abs(hash(request.node.name))}"
    url = create_database(postgres.url, name)
    migrate(url, BASELINE)
    engine = open_engine(url)
    stage_keys(engine, registered(engine, "t", schema_of({"id": "int64"}, ["id"])), [1])
    yield engine
    engine.dispose()


def url_of(engine: sa.Engine) -> str:
    return engine.url.set(drivername="postgresql").render_as_string(hide_password=False)


def publish_table(engine: sa.Engine) -> None:
    table = current(engine, "t")
    publish_all(engine, Owned(table, *claim_by(engine, table.table_id)))


def revision_of(engine: sa.Engine) -> object:
    return sql.value(engine, "SELECT version_num FROM mirrorgate.alembic_version")


def test_a_database_with_data_is_brought_forward_and_publishes_what_was_staged_before(
    old: sa.Engine, programs: Programs
) -> None:
    programs.run_next()
    with pytest.raises(Misconfigured, match=Code.DATABASE_NOT_MIGRATED):
        require_migrated(old)
    assert migrate(url_of(old)) == (BASELINE, "r0002")
    require_migrated(old)
    publish_table(old)
    assert purge(old).dropped_partitions == 1
    assert count(old, "staged_blocks") == 0


def test_a_program_of_the_last_revision_continues_beside_a_new_one(old: sa.Engine, programs: Programs) -> None:
    programs.run_next()
    migrate(url_of(old))
    programs.run_baseline()
    require_migrated(old)
    assert migrate(url_of(old)) == ("r0002", "r0002")
    stage_keys(old, current(old, "t"), [2], [3])
    publish_table(old)
    assert sql.value(old, "SELECT max(last_sequence) FROM mirrorgate.landing_files") == 3


def test_the_database_of_an_unreleased_build_is_rejected(old: sa.Engine) -> None:
    sql.run(old, "UPDATE mirrorgate.installation SET oldest_program = 'r0006'")
    sql.run(old, "UPDATE mirrorgate.alembic_version SET version_num = 'r0042'")
    for act in (lambda: require_migrated(old), lambda: migrate(url_of(old))):
        with pytest.raises(Misconfigured, match=Code.DATABASE_NOT_MIGRATED):
            act()


@pytest.mark.parametrize(
    ("revision", "oldest_program", "fits"),
    [
        ("r9999", program_revision(), True),
        ("r9999", "r9998", False),
        ("r0000", program_revision(), True),  # a branch chose a lower number for a later revision
        ("elsewhere", program_revision(), False),
    ],
)
def test_a_newer_schema_is_taken_while_it_says_that_it_serves_this_program(
    engine: sa.Engine, database_url: str, revision: str, oldest_program: str, fits: bool
) -> None:
    sql.run(engine, "UPDATE mirrorgate.alembic_version SET version_num = :revision", revision=revision)
    sql.run(engine, "UPDATE mirrorgate.installation SET oldest_program = :oldest", oldest=oldest_program)
    try:
        if fits:
            require_migrated(engine)
            migrate(database_url)
        else:
            for act in (lambda: require_migrated(engine), lambda: migrate(database_url)):
                with pytest.raises(Misconfigured, match=f"database_not_migrated.*{revision}"):
                    act()
    finally:
        sql.run(engine, "UPDATE mirrorgate.installation SET oldest_program = 'r0001'")
        sql.run(engine, "UPDATE mirrorgate.alembic_version SET version_num = :r", r=program_revision())


def test_a_migration_gives_way_to_a_lock_and_begins_again(
    old: sa.Engine, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_revision, "_LOCK_MILLISECONDS", 50)
    monkeypatch.setattr(schema_revision, "_MAX_PAUSE_SECONDS", 0.05)
    tries = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LOCK TABLE mirrorgate.block_payloads%'"
    programs.run_next()
    with ThreadPoolExecutor(1) as thread:
        with sql.locked(old, "LOCK TABLE mirrorgate.staged_blocks IN ROW EXCLUSIVE MODE"):
            migration = thread.submit(migrate, url_of(old))
            wait_until(lambda: sql.value(old, tries) > 0, within=30, what="the migration waits for a lock")
            stage_keys(old, current(old, "t"), [2])
            assert not migration.done()
        migration.result(timeout=60)
    require_migrated(old)
    assert sql.value(old, "SELECT max(last_sequence) FROM mirrorgate.staged_blocks") == 2


def test_a_migration_that_never_gets_its_lock_leaves_the_old_revision(
    old: sa.Engine, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_revision, "_LOCK_MILLISECONDS", 20)
    programs.run_next()
    with (
        sql.locked(old, "LOCK TABLE mirrorgate.block_payloads IN ACCESS SHARE MODE"),
        pytest.raises(TemporarilyUnavailable, match=Code.TABLE_BUSY),
    ):
        migrate(url_of(old), retry_seconds=0.0)
    assert revision_of(old) == BASELINE
    stage_keys(old, current(old, "t"), [2])


def test_the_baseline_reads_its_own_copy_of_the_schema_once_a_revision_follows() -> None:
    revisions = sorted((MIGRATIONS / "versions").glob("r*.py"))
    assert len(revisions) == 1 or "schema.sql" not in revisions[0].read_text(encoding="utf-8")


@pytest.mark.parametrize("file", sorted((MIGRATIONS / "versions").glob("r*.py")), ids=lambda file: file.stem)
def test_every_migration_says_its_kind_and_one_that_contracts_says_whom_it_still_serves(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    [kind] = re.findall(r"^Kind: (expand|contract)\.", text, re.MULTILINE)
    assert kind == "expand" or "oldest_program" in text


def test_the_command_says_what_database_and_program_need(
    old: sa.Engine, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORGATE_DATABASE_URL", url_of(old))
    fits = CliRunner().invoke(app, ["migrate", "--check"])
    assert fits.exit_code == 0
    assert fits.stderr == "this program needs r0001; the database has r0001, which fits programs since r0001\n"
    programs.run_next()
    unfit = CliRunner().invoke(app, ["migrate", "--check"])
    assert isinstance(unfit.exception, Misconfigured)
    assert "r0001" in unfit.exception.detail
    assert revision_of(old) == BASELINE
    said = [CliRunner().invoke(app, ["migrate"]).stderr.strip() for _ in range(2)]
    assert said == ["database: r0001 -> r0002", "database: up to date: r0002"]
