"""Fingerprints of the secret of hashed columns: each table has that of the secret its rows are hashed under."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from app.domain.access.mask_secret import MaskSecret
from app.domain.model.names import TableName
from app.domain.model.table import DropAction, DropPlan
from app.domain.model.table_options import TableOptions
from app.staging.access.mask_secrets import hashed_tables, pin_mask_secret
from app.staging.tables.registration import register_table
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.support.gateway_parts import current, next_generation, registered
from tests.support.postgres import sql
from tests.support.samples.schemas import schema_of

FORMER, PRESENT = MaskSecret(b"the former secret of these tests"), MaskSecret(b"the present secret of these tests")
SCHEMA = schema_of({"id": "int64", "mail": "string"}, ["id"])
HASHED = TableOptions.parse({"masks": {"mail": {"method": "hash"}}})
TRUNCATED = TableOptions.parse({"masks": {"mail": {"method": "truncate", "characters": 3}}})


def pin(engine: sa.Engine, secret: MaskSecret) -> None:
    sql.call(engine, pin_mask_secret, secret)


@pytest.fixture
def of_former(engine: sa.Engine) -> sa.Engine:
    """Give a database whose table `t` is hashed under the former secret."""
    pin(engine, FORMER)
    registered(engine, "t", SCHEMA, HASHED)
    return engine


def is_recorded(engine: sa.Engine, secret: MaskSecret) -> bool:
    return secret.made(sql.value(engine, "SELECT mask_fingerprint FROM mirrorgate.installation"))


def test_the_first_secret_is_recorded_and_another_one_is_rejected_while_tables_have_hashes(engine: sa.Engine) -> None:
    pin(engine, FORMER)
    pin(engine, MaskSecret(FORMER.value))
    registered(engine, "t", SCHEMA, HASHED)
    with pytest.raises(TemporarilyUnavailable, match=Code.MASK_SECRET_DIFFERS):
        pin(engine, PRESENT)
    assert is_recorded(engine, FORMER)
    next_generation(engine, "t", DropPlan(DropAction.DROP))
    pin(engine, PRESENT)
    registered(engine, "t", SCHEMA, HASHED)
    assert PRESENT.made(current(engine, "t").mask_fingerprint)
    with pytest.raises(TemporarilyUnavailable):
        pin(engine, FORMER)


def test_of_processes_that_start_together_one_records_its_secret(engine: sa.Engine) -> None:
    def attempt(number: int) -> bool:
        secret = MaskSecret(f"the secret of process {number}".encode())
        name = TableName.parse(f"t{number}")
        try:
            with engine.begin() as connection:
                pin_mask_secret(connection, secret)
                register_table(connection, name, SCHEMA, HASHED)
        except TemporarilyUnavailable:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(attempt, range(4))) == 1


def test_a_table_has_a_fingerprint_from_its_first_hashed_column_on(of_former: sa.Engine) -> None:
    registered(of_former, "plain", SCHEMA, TRUNCATED)
    assert FORMER.made(current(of_former, "t").mask_fingerprint)
    assert current(of_former, "plain").mask_fingerprint is None
    registered(of_former, "plain", SCHEMA, HASHED)
    assert FORMER.made(current(of_former, "plain").mask_fingerprint)


def test_a_hash_that_is_removed_binds_the_secret_until_the_table_is_recreated(of_former: sa.Engine) -> None:
    registered(of_former, "t", SCHEMA, TRUNCATED)
    with pytest.raises(TemporarilyUnavailable):
        pin(of_former, PRESENT)
    assert FORMER.made(current(of_former, "t").mask_fingerprint)
    next_generation(of_former, "t", DropPlan(DropAction.RECREATE))
    pin(of_former, PRESENT)
    registered(of_former, "t", SCHEMA, HASHED)
    assert PRESENT.made(current(of_former, "t").mask_fingerprint)


def test_a_rename_keeps_the_secret_of_the_rows_that_land_again(of_former: sa.Engine) -> None:
    next_generation(of_former, "t", DropPlan(DropAction.RENAME, new_name=TableName.parse("renamed")))
    table = current(of_former, "renamed")
    assert (table.generation, FORMER.made(table.mask_fingerprint)) == (2, True)


def test_a_dropped_table_needs_no_secret(of_former: sa.Engine) -> None:
    next_generation(of_former, "t", DropPlan(DropAction.DROP))
    assert sql.call(of_former, hashed_tables).by_name == {}
