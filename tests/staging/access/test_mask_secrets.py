"""Fingerprints of the secret of hashed columns: each table has that of the secret its rows are hashed under."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from app.domain.access.mask_secret import MaskSecret
from app.domain.model.drop_plan import DropAction, DropPlan
from app.domain.model.names import TableName
from app.domain.model.table_options import TableOptions
from app.errors import Code, TemporarilyUnavailable
from app.staging.access.mask_secrets import change_mask_secret, hashed_tables, pin_mask_secret
from tests.support.gateway_parts import current, next_generation, registered
from tests.support.postgres import sql
from tests.support.samples.schemas import schema_of

FORMER, PRESENT = MaskSecret(b"the former secret of these tests"), MaskSecret(b"the present secret of these tests")
SCHEMA = schema_of({"id": "int64", "mail": "string"}, ["id"])
HASHED = TableOptions.parse({"masks": {"mail": {"method": "hash"}}})
TRUNCATED = TableOptions.parse({"masks": {"mail": {"method": "truncate", "characters": 3}}})


def pin(engine: sa.Engine, secret: MaskSecret) -> None:
    with engine.begin() as connection:
        pin_mask_secret(connection, secret)


def change(engine: sa.Engine, secret: MaskSecret) -> list[str]:
    with engine.begin() as connection:
        return [*change_mask_secret(connection, secret).outdated()]


@pytest.fixture
def of_former(engine: sa.Engine) -> sa.Engine:
    """Give a database whose table `t` is hashed under the former secret."""
    pin(engine, FORMER)
    registered(engine, "t", SCHEMA, HASHED)
    return engine


def test_the_first_secret_is_recorded_and_another_one_is_rejected(engine: sa.Engine) -> None:
    pin(engine, FORMER)
    pin(engine, MaskSecret(FORMER.value))
    with pytest.raises(TemporarilyUnavailable) as raised:
        pin(engine, PRESENT)
    assert raised.value.code is Code.MASK_SECRET_DIFFERS
    stored = sql.value(engine, "SELECT mask_fingerprint FROM mirrorgate.installation")
    assert (FORMER.made(stored), PRESENT.made(stored)) == (True, False)


def test_of_processes_that_start_together_one_records_its_secret(engine: sa.Engine) -> None:
    def attempt(number: int) -> bool:
        try:
            pin(engine, MaskSecret(f"the secret of process {number}".encode()))
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


def test_a_hash_that_is_removed_and_declared_again_keeps_the_secret_of_the_files(of_former: sa.Engine) -> None:
    change(of_former, PRESENT)
    registered(of_former, "t", SCHEMA, TRUNCATED)
    assert change(of_former, PRESENT) == []
    registered(of_former, "t", SCHEMA, HASHED)
    assert FORMER.made(current(of_former, "t").mask_fingerprint)
    assert change(of_former, PRESENT) == ["t"]


@pytest.mark.parametrize(
    ("plan", "secret"),
    [
        (DropPlan(DropAction.RECREATE), PRESENT),
        (DropPlan(DropAction.RENAME, new_name=TableName.parse("u")), FORMER),
    ],
)
def test_a_table_without_masks_forgets_its_secret_only_with_its_rows(
    of_former: sa.Engine, plan: DropPlan, secret: MaskSecret
) -> None:
    registered(of_former, "t", SCHEMA, TRUNCATED)
    next_generation(of_former, "t", plan)
    change(of_former, PRESENT)
    name = str(plan.new_name or "t")
    registered(of_former, name, SCHEMA, HASHED)
    assert secret.made(current(of_former, name).mask_fingerprint)


def test_after_a_change_tables_keep_the_former_secret_until_they_are_recreated(of_former: sa.Engine) -> None:
    assert change(of_former, PRESENT) == ["t"]
    registered(of_former, "new", SCHEMA, HASHED)
    registered(of_former, "t", SCHEMA, TableOptions.parse({**HASHED.to_stored(), "reload": "upsert"}))
    assert change(of_former, PRESENT) == ["t"]
    assert FORMER.made(current(of_former, "t").mask_fingerprint)
    assert PRESENT.made(current(of_former, "new").mask_fingerprint)
    next_generation(of_former, "t", DropPlan(DropAction.RECREATE))
    assert PRESENT.made(current(of_former, "t").mask_fingerprint)
    assert change(of_former, PRESENT) == []


def test_a_rename_keeps_the_secret_of_the_rows_that_land_again(of_former: sa.Engine) -> None:
    change(of_former, PRESENT)
    next_generation(of_former, "t", DropPlan(DropAction.RENAME, new_name=TableName.parse("renamed")))
    table = current(of_former, "renamed")
    assert (table.generation, FORMER.made(table.mask_fingerprint)) == (2, True)


def test_a_change_back_serves_the_tables_of_the_first_secret_again(of_former: sa.Engine) -> None:
    assert change(of_former, PRESENT) == ["t"]
    assert change(of_former, FORMER) == []
    with of_former.begin() as connection:
        found = hashed_tables(connection)
    assert (found.trouble(FORMER), FORMER.made(found.present)) == (None, True)


def test_a_dropped_table_needs_no_secret(of_former: sa.Engine) -> None:
    next_generation(of_former, "t", DropPlan(DropAction.DROP))
    with of_former.begin() as connection:
        assert hashed_tables(connection).by_name == {}
