"""Defaults of a new table's first file and first load; a table that exists keeps what it has."""

from collections.abc import Collection

import pytest
import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import Table
from app.domain.model.table_options import InitialLoad, TableOptions
from app.domain.model.table_schema import TableSchema
from app.staging.tables.registration import Registration, RegistrationOutcome, register_table
from mirrorgate.errors import Code
from tests.support.gateway_parts import current
from tests.support.postgres import sql
from tests.support.rejections import rejected
from tests.support.samples.schemas import schema_of

T = TableName.parse("t")
KEYED = schema_of({"id": "int64", "note": "string"}, ["id"], ["id"])
KEYLESS = schema_of({"id": "int64", "note": "string"}, required=["id"])


def register(
    engine: sa.Engine,
    schema: TableSchema | None,
    options: TableOptions | None = None,
    given: Collection[str] | None = None,
) -> Registration:
    return sql.call(engine, register_table, T, schema, options, given=given)


def first(table: Table) -> tuple[InitialLoad, bool, bool]:
    return table.options.initial_load, table.options.seed_file, table.schema.bare


@pytest.mark.parametrize(("schema", "load"), [(KEYED, InitialLoad.WITH_MARKER), (KEYLESS, InitialLoad.WITHOUT_MARKER)])
@pytest.mark.parametrize("given", [None, (), ("dead_letters",)])
def test_a_new_table_has_a_seed_file_and_no_marker_if_it_has_no_keys(
    engine: sa.Engine, schema: TableSchema, load: InitialLoad, given: Collection[str] | None
) -> None:
    table = register(engine, schema, None if given is None else TableOptions(), given).table
    assert first(table) == (load, True, load is InitialLoad.WITHOUT_MARKER)
    assert first(current(engine, "t")) == first(table)


def test_what_a_registration_names_is_what_a_new_table_gets(engine: sa.Engine) -> None:
    named = ("seed_file", "initial_load")
    assert first(register(engine, KEYLESS, TableOptions(), named).table) == (InitialLoad.WITH_MARKER, False, False)


@pytest.mark.parametrize("schema", [KEYED, KEYLESS])
def test_a_table_of_an_earlier_release_keeps_its_options_when_it_is_registered_again(
    engine: sa.Engine, schema: TableSchema
) -> None:
    before = register(engine, schema, TableOptions()).table  # all options stored, as earlier programs did
    assert register(engine, schema) == Registration(before, RegistrationOutcome.UNCHANGED)
    again = register(engine, schema, TableOptions(), ())
    assert again == Registration(before, RegistrationOutcome.UNCHANGED)
    with rejected(Code.BAD_OPTION):
        register(engine, None, TableOptions.parse({"initial_load": "without_marker"}), ("initial_load",))


def test_a_table_that_stores_no_first_options_has_no_seed_file_and_files_with_marker(engine: sa.Engine) -> None:
    register(engine, KEYED, TableOptions())
    sql.run(engine, "UPDATE mirrorgate.tables SET options = options - 'seed_file' - 'initial_load'")
    assert first(current(engine, "t")) == (InitialLoad.WITH_MARKER, False, False)
    assert register(engine, KEYED).outcome is RegistrationOutcome.UNCHANGED


def test_keys_that_a_table_gains_leave_its_files_without_marker_until_a_change_needs_one(engine: sa.Engine) -> None:
    register(engine, KEYLESS)
    gained = register(engine, KEYED)
    assert gained.outcome is RegistrationOutcome.EVOLVED
    assert first(gained.table) == (InitialLoad.WITHOUT_MARKER, True, True)
    assert gained.table.schema.can_need_marker
    with rejected() as rejection:
        register(engine, None, TableOptions.parse({"insert_marker": "upsert"}), ("insert_marker",))
    assert "give initial_load=with_marker too" in rejection.detail
    both = {"insert_marker": "upsert", "initial_load": "with_marker"}
    assert not register(engine, None, TableOptions.parse(both), tuple(both)).table.schema.bare
