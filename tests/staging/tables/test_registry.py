"""Tables as they are registered, with the options that a new table gets."""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import Generation, Table, TableId, TableState
from app.domain.model.table_options import InitialLoad, TableOptions
from app.domain.model.table_schema import SchemaVersion, TableSchema
from app.staging.connection import database
from app.staging.connection.database import open_engine, translated_errors
from app.staging.tables.registration import Registration, RegistrationOutcome, register_table
from app.staging.tables.registry import find_table, find_table_by_id, list_tables, quarantine_table
from app.staging.tables.replicate_sources import names_with_schema_id, record_replicate_metadata, replicate_metadata
from app.staging.tables.schema_versions import schema_of_version
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.support.gateway_parts import current
from tests.support.postgres import sql
from tests.support.rejections import rejected
from tests.support.samples.schemas import schema_of

ORDERS = TableName.parse("sales.Orders")
FIRST = schema_of({"id": "int64", "total": "decimal(9,2)", "made": "timestamp"}, ["id"], required=["id"])
WIDER = schema_of({"id": "int64", "total": "decimal(9,2)", "made": "timestamp", "note": "json"}, ["id"], ["id"])


def register(engine: sa.Engine, schema: TableSchema, name: TableName = ORDERS) -> Registration:
    return sql.call(engine, register_table, name, schema)


def test_a_registered_table_is_found_as_it_was_declared(engine: sa.Engine) -> None:
    registration = register(engine, FIRST)
    assert registration.outcome is RegistrationOutcome.CREATED
    table = registration.table
    assert (table.name, table.generation, table.state, table.schema_version) == (ORDERS, 1, TableState.ACTIVE, 1)
    assert table.schema == FIRST
    with engine.begin() as connection:
        assert find_table(connection, TableName.parse("SALES.orders")) == table
        assert find_table_by_id(connection, table.table_id) == table
        assert list_tables(connection) == [table]


def test_new_columns_make_a_new_version_beside_the_old_one(engine: sa.Engine) -> None:
    table = register(engine, FIRST).table
    evolved = register(engine, WIDER)
    assert evolved.outcome is RegistrationOutcome.EVOLVED
    assert (evolved.table.table_id, evolved.table.schema_version) == (table.table_id, 2)
    assert evolved.table.schema == WIDER
    place = (table.table_id, Generation(1))
    versions = [sql.call(engine, schema_of_version, *place, SchemaVersion(number)) for number in (1, 2)]
    assert versions == [FIRST, WIDER]


def test_a_conflicting_schema_is_rejected_and_changes_nothing(engine: sa.Engine) -> None:
    register(engine, FIRST)
    with rejected(Code.INCOMPATIBLE_SCHEMA):
        register(engine, schema_of({"id": "int32"}, ["id"], ["id"]))
    assert current(engine, "sales.orders").schema == FIRST


def test_registering_one_name_at_once_creates_one_table(engine: sa.Engine) -> None:
    together = Barrier(4)

    def register_with_others(number: int) -> Registration:
        together.wait(timeout=30)
        return register(engine, FIRST, TableName.parse("sales.orders" if number % 2 else "SALES.ORDERS"))

    with ThreadPoolExecutor(4) as threads:
        registrations = list(threads.map(register_with_others, range(4)))
    assert len({registration.table.table_id for registration in registrations}) == 1
    assert sorted(registration.outcome for registration in registrations) == ["created", *["unchanged"] * 3]
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.tables") == 1


def test_columns_added_at_once_all_arrive_each_in_a_version_of_its_own(engine: sa.Engine) -> None:
    register(engine, schema_of({"id": "int64"}))
    together = Barrier(4)

    def add(column: str) -> Registration:
        together.wait(timeout=30)
        return register(engine, schema_of({"id": "int64", column: "string"}))

    with ThreadPoolExecutor(4) as threads:
        versions = [registration.table.schema_version for registration in threads.map(add, "abcd")]
    assert sorted(versions) == [2, 3, 4, 5]
    assert sorted(current(engine, "sales.orders").schema.names) == ["a", "b", "c", "d", "id"]


def test_the_schema_does_not_change_under_a_held_sequence_lock(
    engine: sa.Engine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(engine, FIRST)
    monkeypatch.setattr(database, "_LOCK_MILLISECONDS", 50)
    impatient = open_engine(database_url)
    with (
        sql.locked(engine, "SELECT FROM mirrorgate.table_counters FOR NO KEY UPDATE"),
        pytest.raises(TemporarilyUnavailable, match=Code.TABLE_BUSY),
        translated_errors(),
    ):
        register(impatient, WIDER)
    impatient.dispose()
    assert current(engine, "sales.orders").schema == FIRST


def test_tables_are_found_by_the_schema_ids_they_have_and_had(engine: sa.Engine) -> None:
    tables = [register(engine, FIRST, TableName.parse(name)).table for name in ("one", "two", "three")]
    histories = [
        {"schema_id": "new", "table_version": 2, "earlier": [{"schema_id": "old"}, {"schema_id": None}]},
        {"schema_id": "old", "table_version": 1, "earlier": []},
        {"schema_id": None, "table_version": 1},
    ]
    with engine.begin() as connection:
        assert replicate_metadata(connection, tables[0].table_id) is None
        for table, history in zip(tables, histories, strict=True):
            record_replicate_metadata(connection, table.table_id, history)
        assert replicate_metadata(connection, tables[0].table_id) == histories[0]
        found = {schema_id: names_with_schema_id(connection, schema_id) for schema_id in ("new", "old", "never")}
    named = {key: sorted(map(str, names)) for key, names in found.items()}
    assert named == {"new": ["one"], "old": ["one", "two"], "never": []}


def test_quarantine_stops_an_active_table_with_a_reason_and_changes_no_other_state(engine: sa.Engine) -> None:
    table = register(engine, FIRST).table
    paused = register(engine, FIRST, TableName.parse("paused")).table
    sql.run(engine, "UPDATE mirrorgate.tables SET state = 'paused' WHERE table_id = :id", id=paused.table_id)
    with engine.begin() as connection:
        for table_id in (table.table_id, paused.table_id, TableId(99)):
            quarantine_table(connection, table_id, "foreign_file")
    states = sql.rows(engine, "SELECT state, state_reason FROM mirrorgate.tables ORDER BY table_id")
    assert states == [("quarantined", "foreign_file"), ("paused", None)]


T = TableName.parse("t")
KEYED = schema_of({"id": "int64", "note": "string"}, ["id"], ["id"])
KEYLESS = schema_of({"id": "int64", "note": "string"}, required=["id"])


def put(
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
    table = put(engine, schema, None if given is None else TableOptions(), given).table
    assert first(table) == (load, True, load is InitialLoad.WITHOUT_MARKER)
    assert first(current(engine, "t")) == first(table)


def test_what_a_registration_names_is_what_a_new_table_gets(engine: sa.Engine) -> None:
    named = ("seed_file", "initial_load")
    assert first(put(engine, KEYLESS, TableOptions(), named).table) == (
        InitialLoad.WITH_MARKER,
        False,
        False,
    )


@pytest.mark.parametrize("schema", [KEYED, KEYLESS])
def test_a_table_of_an_earlier_release_keeps_its_options_when_it_is_registered_again(
    engine: sa.Engine, schema: TableSchema
) -> None:
    before = put(engine, schema, TableOptions()).table  # all options stored, as earlier programs did
    assert put(engine, schema) == Registration(before, RegistrationOutcome.UNCHANGED)
    again = put(engine, schema, TableOptions(), ())
    assert again == Registration(before, RegistrationOutcome.UNCHANGED)
    with rejected(Code.BAD_OPTION):
        put(engine, None, TableOptions.parse({"initial_load": "without_marker"}), ("initial_load",))


def test_a_table_that_stores_no_first_options_has_no_seed_file_and_files_with_marker(engine: sa.Engine) -> None:
    put(engine, KEYED, TableOptions())
    sql.run(engine, "UPDATE mirrorgate.tables SET options = options - 'seed_file' - 'initial_load'")
    assert first(current(engine, "t")) == (InitialLoad.WITH_MARKER, False, False)
    assert put(engine, KEYED).outcome is RegistrationOutcome.UNCHANGED


def test_keys_that_a_table_gains_leave_its_files_without_marker_until_a_change_needs_one(engine: sa.Engine) -> None:
    put(engine, KEYLESS)
    gained = put(engine, KEYED)
    assert gained.outcome is RegistrationOutcome.EVOLVED
    assert first(gained.table) == (InitialLoad.WITHOUT_MARKER, True, True)
    assert gained.table.schema.can_need_marker
    with rejected() as rejection:
        put(engine, None, TableOptions.parse({"insert_marker": "upsert"}), ("insert_marker",))
    assert "give initial_load=with_marker too" in rejection.detail
    both = {"insert_marker": "upsert", "initial_load": "with_marker"}
    assert not put(engine, None, TableOptions.parse(both), tuple(both)).table.schema.bare
