"""The connection to Postgres: addresses, sessions, snapshots, settings of the server, and what errors mean."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict

from app.domain.preflight import DatabaseFacts, Outcome, judge_database
from app.local.embedded import PrivatePostgres
from app.staging.connection.database import (
    driver_url,
    installation_id,
    open_engine,
    pin_marker_position,
    read_snapshot,
    translated_error,
    translated_errors,
)
from app.staging.connection.schema_revision import database_facts, migrate, require_migrated
from mirrorgate.errors import Code, Misconfigured, RejectedInput, TemporarilyUnavailable
from tests.support.postgres import sql
from tests.support.postgres.databases import create_database, database_in


def test_migrating_twice_changes_nothing(engine: sa.Engine, database_url: str) -> None:
    before = sql.call(engine, installation_id)
    migrate(database_url)
    require_migrated(engine)
    assert sql.call(engine, installation_id) == before


def test_an_empty_database_is_rejected_until_the_first_process_migrates_it(postgres: PrivatePostgres) -> None:
    url = create_database(postgres.url, "unmigrated")
    engine = open_engine(url)
    with pytest.raises(Misconfigured, match=Code.DATABASE_NOT_MIGRATED):
        require_migrated(engine)
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(migrate, [url] * 3))
    require_migrated(engine)
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.installation") == 1
    engine.dispose()


def test_every_database_has_its_own_installation_id_when_it_is_migrated_by_itself(
    postgres: PrivatePostgres, engine: sa.Engine
) -> None:
    url = create_database(postgres.url, "another")
    migrate(url)
    other = open_engine(url)
    with engine.begin() as one, other.begin() as two:
        assert installation_id(one) != installation_id(two)
    other.dispose()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_an_engine_speaks_to_either_spelling_and_in_utc(database_url: str, scheme: str) -> None:
    engine = open_engine(database_url.replace("postgresql", scheme, 1))
    assert sql.value(engine, "SHOW timezone") == "UTC"
    assert sql.value(engine, "SHOW lock_timeout") == "2s"
    with psycopg.connect(driver_url(engine)) as connection:
        assert connection.info.dbname == engine.url.database
    engine.dispose()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://g:p,q@one:5432,two:5433/db?target_session_attrs=read-write",
        "postgresql://g:p@[::1]:5432,10.0.0.2:5433/db",
        "postgresql://one:5433,two:5432?sslmode=verify-full",
        "postgresql://g:p,q@one:5433/db?sslmode=verify-full",
        "postgresql://g%20h:top%20s+%25%40%C3%A9'\\@one:5433/d%20b?options=-c%20work_mem%3D4MB",
    ],
)
def test_an_address_means_what_libpq_reads_in_it(address: str) -> None:
    engine = open_engine(address)
    _, used = engine.dialect.create_connect_args(engine.url)
    read = conninfo_to_dict(address)
    assert conninfo_to_dict(driver_url(engine)) == read
    assert {name: str(value) for name, value in used.items() if name != "context"} == read


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://g:p@one:5432,two:5433/db?host=three",
        "postgresql://g:p@one:5432,two:5433/db?sslmode=require&port=1",
        "postgresql://g:p@secret@one/db",
        "postgresql://g:p@secret@one,two/db",
        "postgresql://g:p@one/db?nosuch=secret",
        "postgresql://g:p@one/db?port=secret",
    ],
)
def test_an_address_that_psycopg_would_misread_is_rejected_and_not_repeated(address: str) -> None:
    with pytest.raises(Misconfigured, match=Code.BAD_SETTING) as caught:
        open_engine(address)
    assert "secret" not in f"{caught.value} {caught.value.remedy}"


def test_a_session_has_its_own_settings_whatever_role_and_database_have(postgres: PrivatePostgres) -> None:
    url = create_database(postgres.url, "settings")
    wanted = {"DateStyle": "ISO, MDY", "client_encoding": "UTF8", "default_transaction_isolation": "read committed"}
    others = {"DateStyle": "German", "client_encoding": "LATIN1", "default_transaction_isolation": "serializable"}
    wanted["extra_float_digits"], others["extra_float_digits"] = "1", "-10"
    with psycopg.connect(url, autocommit=True) as owner:
        for name, value in others.items():
            owner.execute(f"ALTER DATABASE settings SET {name} = '{value}'".encode())
    migrate(url)
    engine = open_engine(url)
    holds = {name: sql.value(engine, f"SELECT setting FROM pg_settings WHERE name = '{name}'") for name in wanted}
    assert holds == wanted
    assert abs(database_facts(engine).clock_behind_seconds) < 1
    engine.dispose()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_every_name_is_not_migrated(postgres: PrivatePostgres, encoding: str) -> None:
    name = f"in_{encoding.lower()}"
    with psycopg.connect(postgres.url, autocommit=True) as owner:
        owner.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0".encode())
    url = database_in(postgres.url, name)
    with pytest.raises(Misconfigured, match=f"bad_setting: the database has the encoding {encoding}, not UTF8"):
        migrate(url)


def test_an_exhausted_pool_is_a_passing_condition(database_url: str) -> None:
    engine = sa.create_engine(open_engine(database_url).url, pool_size=1, max_overflow=0, pool_timeout=0.01)
    with engine.connect(), pytest.raises(TemporarilyUnavailable, match=Code.DATABASE_UNAVAILABLE), translated_errors():
        engine.connect()
    engine.dispose()


def test_a_right_that_the_role_lacks_is_named_with_what_to_do(engine: sa.Engine) -> None:
    with pytest.raises(TemporarilyUnavailable, match="the role, which has to own the database"), translated_errors():
        sql.run(engine, "SET LOCAL ROLE pg_monitor; SELECT * FROM mirrorgate.tables")


def test_a_mistake_in_a_statement_is_no_passing_condition(engine: sa.Engine) -> None:
    with pytest.raises(sa.exc.ProgrammingError), translated_errors():
        sql.run(engine, "SELECT FROM nowhere")


@pytest.mark.parametrize("marker_first", [True, False])
def test_the_row_marker_stays_where_the_first_program_had_it(engine: sa.Engine, marker_first: bool) -> None:
    for _ in range(2):
        pin_marker_position(engine, marker_first=marker_first)
    with pytest.raises(Misconfigured, match=Code.BAD_SETTING):
        pin_marker_position(engine, marker_first=not marker_first)


def test_a_snapshot_sees_one_moment_and_writes_nothing(engine: sa.Engine) -> None:
    count = "SELECT count(*) FROM mirrorgate.workers"
    add = "INSERT INTO mirrorgate.workers (worker_id, lease_until) VALUES (gen_random_uuid(), clock_timestamp())"
    with read_snapshot(engine) as connection:
        before = connection.execute(sa.text(count)).scalar_one()
        sql.run(engine, add)
        assert connection.execute(sa.text(count)).scalar_one() == before
    with pytest.raises(sa.exc.InternalError, match="read-only"), read_snapshot(engine) as connection:
        connection.execute(sa.text(add))
    assert sql.value(engine, count) == before + 1


MEANINGS = {
    Code.DATABASE_UNAVAILABLE: (
        "a condition that passes",
        *("25006", "57P01", "57P02", "57P03", "57014", "53100", "53300", "53200", "08006", "58030", "25P03"),
    ),
    Code.TABLE_BUSY: ("a lock", "55P03", "40P01", "40001"),
    Code.UNSTORABLE: ("data that Postgres cannot store", "22021", "22P05", "22003", "54000", "54001"),
    None: ("a broken invariant", "23505", "23503", "23514", "42P01", "XX000"),
}
"""By code of the error, or None for an error of ours: the kind of condition, and its states in Postgres."""


@pytest.mark.parametrize(
    ("code", "state"),
    [
        pytest.param(code, state, id=f"{kind}, {state}")
        for code, (kind, *states) in MEANINGS.items()
        for state in states
    ],
)
def test_a_state_of_postgres_has_its_meaning(code: Code | None, state: str) -> None:
    error = translated_error(sa.exc.DBAPIError("", None, psycopg.errors.lookup(state)()))
    assert (error and error.code) == code
    assert isinstance(error, RejectedInput) is (code is Code.UNSTORABLE)


def test_an_index_row_that_is_too_long_is_told_as_unstorable(engine: sa.Engine) -> None:
    with pytest.raises(RejectedInput, match=Code.UNSTORABLE), translated_errors():
        # Random bytes, since Postgres compresses what repeats itself.
        sql.run(
            engine,
            """INSERT INTO mirrorgate.producers (principal, producer)
            SELECT 'p', string_agg(gen_random_uuid()::text, '') FROM generate_series(1, 400)""",
        )


def test_a_read_only_database_is_unavailable_and_serves_again_without_a_restart(
    engine: sa.Engine, database_url: str
) -> None:
    mark = "INSERT INTO mirrorgate.producers (principal, producer) VALUES ('p', 'q')"
    gateway = open_engine(database_url)
    with sql.read_only(engine), pytest.raises(TemporarilyUnavailable) as rejection, translated_errors():
        sql.run(gateway, mark)
    assert rejection.value.code == Code.DATABASE_UNAVAILABLE
    assert "read-only" in rejection.value.detail
    sql.run(gateway, mark)  # on a new connection: the old one would stay read-only
    gateway.dispose()


def outcomes(facts: DatabaseFacts) -> dict[str, Outcome]:
    """Return what is not ok, by check."""
    return {finding.check: finding.outcome for finding in judge_database(facts) if finding.outcome is not Outcome.OK}


def test_a_server_that_may_lose_what_it_acknowledged_is_unsafe(engine: sa.Engine) -> None:
    facts = database_facts(engine)
    unsafe = {"postgres_fsync", "postgres_full_page_writes", "postgres_synchronous_commit"}
    assert outcomes(facts) == dict.fromkeys(unsafe, Outcome.UNSAFE)
    assert facts.heard_itself
    assert not facts.through_pooler
    assert abs(facts.clock_behind_seconds) < 5


def test_a_database_of_another_revision_is_unsafe_and_the_remedy_says_what_to_run(engine: sa.Engine) -> None:
    before = sql.value(engine, "SELECT version_num FROM mirrorgate.alembic_version")
    sql.run(engine, "UPDATE mirrorgate.alembic_version SET version_num = 'elsewhere'")
    try:
        (finding,) = [found for found in judge_database(database_facts(engine)) if found.check == "postgres_revision"]
    finally:
        sql.run(engine, "UPDATE mirrorgate.alembic_version SET version_num = :before", before=before)
    assert finding.outcome is Outcome.UNSAFE
    assert "elsewhere" in finding.detail
    assert "mirrorgate migrate" in str(finding.remedy)
