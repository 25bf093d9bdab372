"""The error that a caller gets for each kind of database error."""

import psycopg
import pytest
import sqlalchemy as sa

from app.staging.connection.database import open_engine, translated_error, translated_errors
from mirrorgate.errors import Code, RejectedInput, TemporarilyUnavailable
from tests.support.postgres import sql

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
