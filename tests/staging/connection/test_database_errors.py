"""The error that a caller gets for each kind of database error."""

import psycopg
import pytest
import sqlalchemy as sa

from app.staging.connection.database import open_engine, translated_error, translated_errors
from mirrorgate.errors import Code, MirrorgateError, RejectedInput, TemporarilyUnavailable
from tests.support.postgres import sql


def meaning(state: str) -> MirrorgateError | None:
    return translated_error(sa.exc.DBAPIError("", None, psycopg.errors.lookup(state)()))


@pytest.mark.parametrize(
    "state", ["25006", "57P01", "57P02", "57P03", "57014", "53100", "53300", "53200", "08006", "58030", "25P03"]
)
def test_a_condition_that_passes_is_unavailable(state: str) -> None:
    error = meaning(state)
    assert isinstance(error, TemporarilyUnavailable)
    assert error.code == Code.DATABASE_UNAVAILABLE


@pytest.mark.parametrize("state", ["55P03", "40P01", "40001"])
def test_a_lock_is_a_busy_table(state: str) -> None:
    error = meaning(state)
    assert error.code == Code.TABLE_BUSY


@pytest.mark.parametrize("state", ["22021", "22P05", "22003", "54000", "54001"])
def test_data_that_postgres_cannot_store_is_the_fault_of_the_request(state: str) -> None:
    error = meaning(state)
    assert isinstance(error, RejectedInput)
    assert error.code == Code.UNSTORABLE


@pytest.mark.parametrize("state", ["23505", "23503", "23514", "42P01", "XX000"])
def test_a_broken_invariant_stays_an_error_of_ours(state: str) -> None:
    assert meaning(state) is None


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
    name = sa.make_url(database_url).database
    mark = "INSERT INTO mirrorgate.producers (principal, producer) VALUES ('p', 'q')"
    gateway = open_engine(database_url)
    set_read_only = f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'
    sql.run(engine, set_read_only)
    try:
        with pytest.raises(TemporarilyUnavailable) as rejection, translated_errors():
            sql.run(gateway, mark)
    finally:
        sql.run(engine, "SET TRANSACTION READ WRITE")
        sql.run(engine, f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
    assert rejection.value.code == Code.DATABASE_UNAVAILABLE
    assert "read-only" in rejection.value.detail
    sql.run(gateway, mark)  # on a new connection: the old one would stay read-only
    gateway.dispose()
