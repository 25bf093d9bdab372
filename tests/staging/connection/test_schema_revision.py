"""Migrating a database in use, and programs of two versions on one schema."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from app.cli.main import app
from app.domain.access.api_key import hash_secret
from app.domain.arrow.payload import payload_digest
from app.errors import Code, Misconfigured, TemporarilyUnavailable
from app.local.embedded import PrivatePostgres
from app.staging.access.api_keys import find_key, rotate_key
from app.staging.access.audit_events import AuditFilter, list_audit
from app.staging.connection import schema_revision
from app.staging.connection.database import open_engine
from app.staging.connection.schema_revision import MIGRATIONS, migrate, program_revision, require_migrated
from tests.support.gateway_parts import current
from tests.support.postgres import sql
from tests.support.postgres.databases import create_database, database_in
from tests.support.postgres.ledger import Owned, claim_by, plan, publish
from tests.support.postgres.retention import count, partitions_of_payloads, purge
from tests.support.waiting import wait_until

REGISTER_IN_R0006 = """
    INSERT INTO mirrorgate.tables (name, folded_name) VALUES ('t', 't');
    INSERT INTO mirrorgate.table_counters (table_id, last_sequence) SELECT table_id, 0 FROM mirrorgate.tables;
    INSERT INTO mirrorgate.schema_versions (table_id, generation, version, key_columns, columns)
    SELECT table_id, 1, 1, '{id}', '[{"name": "id", "type": "int64", "nullable": false}]' FROM mirrorgate.tables;
    INSERT INTO mirrorgate.metadata_blocks (table_id, generation, sequence_number, block_hash, system_time, event)
    SELECT table_id, 1, 0, repeat('0', 64), now(), '{"kind": "Seed"}' FROM mirrorgate.tables"""

STAGE_IN_R0006 = """
    WITH counted AS (
        UPDATE mirrorgate.table_counters SET last_sequence = last_sequence + 1, accepted_changes = accepted_changes + 1,
            accepted_rows = accepted_rows + 1
        RETURNING table_id, last_sequence),
    block AS (
        INSERT INTO mirrorgate.staged_blocks (table_id, generation, first_sequence, last_sequence, schema_version,
            batch_rows, batch_changes, row_count, change_count, payload_bytes, payload_digest, ends_transaction,
            source_position)
        SELECT table_id, 1, last_sequence, last_sequence, 1, '{1}', '{1}', 1, 1, 3, sha256('old'), true, NULL
        FROM counted)
    INSERT INTO mirrorgate.block_payloads (table_id, generation, first_sequence, payload)
    SELECT table_id, 1, last_sequence, 'old' FROM counted"""
"""The columns that the program of r0006 names."""

READ_IN_R0006 = "SELECT payload FROM mirrorgate.block_payloads WHERE first_sequence BETWEEN 1 AND 99 ORDER BY 1"


@pytest.fixture
def old(postgres: PrivatePostgres, request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    """Give a database of r0006 with a table and one block, left by the program of that time."""
    name = f"old_{abs(hash(request.node.name))}"
    create_database(postgres.url, name)
    url = database_in(postgres.url, name)
    migrate(url, "r0006")
    engine = open_engine(url)
    sql.run(engine, REGISTER_IN_R0006.replace(": ", "\\: "))
    sql.run(engine, STAGE_IN_R0006)
    yield engine
    engine.dispose()


def url_of(engine: sa.Engine) -> str:
    return engine.url.set(drivername="postgresql").render_as_string(hide_password=False)


def test_a_database_with_data_is_brought_forward_and_publishes_what_was_staged_before(old: sa.Engine) -> None:
    with pytest.raises(Misconfigured) as rejection:
        require_migrated(old)
    assert rejection.value.code is Code.DATABASE_NOT_MIGRATED
    migrate(url_of(old))
    require_migrated(old)
    assert partitions_of_payloads(old) == {1: 0}
    table = current(old, "t")
    owned = Owned(table, *claim_by(old, table.table_id))
    for file in plan(old, owned):
        publish(old, owned, file)
    assert purge(old).dropped_partitions == 1
    assert count(old, "staged_blocks") == 0


def test_a_program_of_the_last_revision_goes_on_beside_a_new_one(old: sa.Engine) -> None:
    migrate(url_of(old))
    for _ in range(3):
        sql.run(old, STAGE_IN_R0006)
        purge(old)
    assert [bytes(payload) for (payload,) in sql.rows(old, READ_IN_R0006)] == [b"old"] * 4
    assert all(number > 0 for number in partitions_of_payloads(old).values())
    digests = {bytes(digest) for (digest,) in sql.rows(old, "SELECT payload_digest FROM mirrorgate.staged_blocks")}
    assert digests == {payload_digest(b"old")}
    sql.run(
        old,
        """INSERT INTO mirrorgate.landing_files (table_id, generation, number, first_sequence, last_sequence,
            schema_version, row_count, change_count, digest)
        SELECT table_id, 1, 1, 1, 4, 1, 4, 4, '00' FROM mirrorgate.tables""",
    )


INSERT_KEY_IN_R0009 = """
    INSERT INTO mirrorgate.api_keys (key_id, secret_hash, rights, table_patterns, expires_at)
    VALUES (:key_id, :secret_hash, '{read}', '{*}', NULL)"""

SELECT_KEY_IN_R0009 = """
    SELECT key_id, secret_hash, rights, table_patterns, created_at, expires_at FROM mirrorgate.api_keys
    WHERE key_id = :key_id AND (expires_at IS NULL OR expires_at > now())"""

INSERT_EVENT_IN_R0009 = """
    INSERT INTO mirrorgate.table_events (table_id, folded_name, generation, actor, action, reason, details)
    SELECT table_id, 't', 1, '0011aabb', 'flush', NULL, '{}' FROM mirrorgate.tables"""


def test_keys_and_events_of_programs_of_two_versions_go_together(old: sa.Engine) -> None:
    first, second = hash_secret("first"), hash_secret("second")
    sql.run(old, INSERT_KEY_IN_R0009, key_id="0011aabb", secret_hash=first)
    migrate(url_of(old))
    sql.run(old, INSERT_KEY_IN_R0009, key_id="ccddeeff", secret_hash=first)
    with old.begin() as connection:
        keys = [find_key(connection, key_id) for key_id in ("0011aabb", "ccddeeff")]
        assert [key.secret_hashes for key in keys if key is not None] == [(first,), (first,)]
        rotate_key(connection, "0011aabb", second, 3600)
        rotated = find_key(connection, "0011aabb")
    assert rotated is not None
    assert rotated.secret_hashes == (second, first)
    [seen] = sql.rows(old, SELECT_KEY_IN_R0009, key_id="0011aabb")
    assert bytes(seen[1]) == second, "the older program accepts the new secret"
    sql.run(old, INSERT_EVENT_IN_R0009)
    with old.begin() as connection:
        assert [event.action for event in list_audit(connection, AuditFilter(), after=0, limit=9)] == ["flush"]
    sql.run(old, "DELETE FROM mirrorgate.api_keys WHERE key_id = '0011aabb'")
    assert sql.value(old, "SELECT count(*) FROM mirrorgate.former_key_secrets") == 0


@pytest.mark.parametrize(
    ("revision", "oldest_program", "fits"),
    [
        ("r9999", "r0006", True),
        ("r9999", program_revision(), True),
        ("r9999", "r9998", False),
        ("r0025", "r0006", True),  # a branch chose a lower number for a later revision
        ("r0006", "r0006", False),
        ("elsewhere", "r0006", False),
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
            with pytest.raises(Misconfigured) as rejection:
                require_migrated(engine)
            assert revision in rejection.value.detail
    finally:
        sql.run(engine, "UPDATE mirrorgate.installation SET oldest_program = 'r0006'")
        sql.run(engine, "UPDATE mirrorgate.alembic_version SET version_num = :r", r=program_revision())


def test_a_program_older_than_a_contracted_schema_does_not_touch_it(engine: sa.Engine, database_url: str) -> None:
    sql.run(engine, "UPDATE mirrorgate.alembic_version SET version_num = 'r9999'")
    sql.run(engine, "UPDATE mirrorgate.installation SET oldest_program = 'r9999'")
    try:
        with pytest.raises(Misconfigured):
            migrate(database_url)
    finally:
        sql.run(engine, "UPDATE mirrorgate.installation SET oldest_program = 'r0006'")
        sql.run(engine, "UPDATE mirrorgate.alembic_version SET version_num = :r", r=program_revision())


def test_a_migration_gives_way_to_a_lock_and_begins_again(old: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_revision, "_LOCK_MILLISECONDS", 50)
    monkeypatch.setattr(schema_revision, "_MAX_PAUSE_SECONDS", 0.05)
    tries = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%LOCK TABLE mirrorgate.staged_blocks%'"
    with ThreadPoolExecutor(1) as thread:
        with sql.locked(old, "LOCK TABLE mirrorgate.staged_blocks IN ROW EXCLUSIVE MODE"):
            migration = thread.submit(migrate, url_of(old))
            wait_until(lambda: sql.value(old, tries) > 1, within=30, what="the migration waits for a lock")
            sql.run(old, "SET LOCAL lock_timeout = '10s'; " + STAGE_IN_R0006)
            assert not migration.done()
        migration.result(timeout=60)
    require_migrated(old)
    assert sql.value(old, "SELECT max(last_sequence) FROM mirrorgate.staged_blocks") == 2


def test_a_migration_that_never_gets_its_lock_leaves_the_old_revision(
    old: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_revision, "_LOCK_MILLISECONDS", 20)
    with (
        sql.locked(old, "LOCK TABLE mirrorgate.block_payloads IN ACCESS SHARE MODE"),
        pytest.raises(TemporarilyUnavailable) as rejection,
    ):
        migrate(url_of(old), retry_seconds=0.0)
    assert rejection.value.code is Code.TABLE_BUSY
    assert sql.value(old, "SELECT version_num FROM mirrorgate.alembic_version") == "r0006"
    sql.run(old, STAGE_IN_R0006)


@pytest.mark.parametrize("file", sorted((MIGRATIONS / "versions").glob("r*.py")), ids=lambda file: file.stem)
def test_every_migration_says_its_kind_and_one_that_contracts_says_whom_it_still_serves(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    [kind] = re.findall(r"^Kind: (expand|contract)\.", text, re.MULTILINE)
    assert kind == "expand" or "oldest_program" in text


def test_the_command_says_what_database_and_program_need(
    engine: sa.Engine, old: sa.Engine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORGATE_DATABASE_URL", database_url)
    fits = CliRunner().invoke(app, ["migrate", "--check"])
    needed = program_revision()
    assert fits.exit_code == 0
    assert fits.stderr == (f"this program needs {needed}; the database has {needed}, which fits programs since r0006\n")
    monkeypatch.setenv("MIRRORGATE_DATABASE_URL", url_of(old))
    unfit = CliRunner().invoke(app, ["migrate", "--check"])
    assert isinstance(unfit.exception, Misconfigured)
    assert "r0006" in unfit.exception.detail
    assert sql.value(old, "SELECT version_num FROM mirrorgate.alembic_version") == "r0006"
