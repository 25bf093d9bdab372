"""Registering tables and evolving their schemas."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import Generation, TableId, TableState
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
