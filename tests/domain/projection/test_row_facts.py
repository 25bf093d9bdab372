"""What landing rows say of their changes: their operation, their position and their time in the source."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from app.domain.model.change import Change, Operation
from app.domain.model.landing_schema import with_landing
from app.domain.model.projection import AuditValue
from app.domain.model.table_options import TableOptions
from app.domain.rows.landing_rows import landing_rows, landing_rows_of_shaped
from app.domain.rows.projection.row_facts import carried
from app.domain.rows.row_rules import ChangeFacts, RowRules
from tests.support.samples.changes import change, delete, insert, shaped, update, upsert
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "name": "string"}, ["id"], required=["id"])
ADA = {"id": 1, "name": "Ada"}
CHANGES = [
    insert(ADA),
    update(ADA, {"id": 2, "name": "Ada"}),
    update({"id": 2}, {"id": 2, "name": "Eve"}),
    delete({"id": 2}),
    upsert(ADA),
    change(Operation.MERGE, None, ADA),
]
OPERATIONS = ["insert", "delete", "insert", "update", "delete", "upsert", "upsert"]


def rules_with(**audit: str) -> RowRules:
    options = TableOptions.parse({"audit_columns": audit})
    return RowRules(with_landing(SCHEMA, options), options)


def facts(batch: Any, value: AuditValue) -> list[Any]:
    found: list[Any] = batch.column(carried(value)).to_pylist()
    return found


def test_a_changed_key_is_a_delete_and_an_insert_and_a_merge_is_an_upsert() -> None:
    rules = rules_with(operation="op")
    exact = landing_rows(CHANGES, rules)
    assert facts(exact.batch, AuditValue.OPERATION) == OPERATIONS
    together = landing_rows_of_shaped([shaped(CHANGES, SCHEMA)], rules)
    assert together is not None
    assert together[0].batch.equals(exact.batch)
    assert facts(landing_rows([insert(ADA)] * 2, rules).batch, AuditValue.OPERATION) == ["insert"] * 2


def test_both_rows_of_a_changed_key_have_the_position_and_the_time_of_their_change() -> None:
    rules = rules_with(source_position="pos", source_timestamp="at")
    positions = [None, "p1", "p2", None, "p4", "p5"]
    times = [1_767_600_000, None, "2026-01-05T08:00:00", 0, None, "x"]
    changes = [
        msgspec.structs.replace(one, source_position=position, source_time=time)
        for one, position, time in zip(CHANGES, positions, times, strict=True)
    ]
    moment = datetime(2026, 1, 5, 8, tzinfo=UTC)
    batch = landing_rows(changes, rules).batch
    assert batch.schema.names == ["id", "name", "\0source_timestamp", "\0source_position", "__rowMarker__"]
    assert facts(batch, AuditValue.SOURCE_POSITION) == [None, "p1", "p1", "p2", None, "p4", "p5"]
    assert facts(batch, AuditValue.SOURCE_TIMESTAMP) == [moment, None, None, moment, None, None, None]
    request = replace(shaped(changes, SCHEMA), origins=lambda: ChangeFacts(positions, times))
    together = landing_rows_of_shaped([request], rules)
    assert together is not None
    assert together[0].batch.equals(batch)


def test_a_reader_that_cannot_tell_the_facts_leaves_them_to_the_exact_path() -> None:
    unknown = replace(shaped(CHANGES, SCHEMA), origins=lambda: None)
    assert landing_rows_of_shaped([unknown], rules_with(source_position="pos")) is None
    without_facts: list[Change] = [insert(ADA)]
    told = landing_rows_of_shaped([shaped(without_facts, SCHEMA)], rules_with(source_position="pos"))
    assert told is not None
    assert facts(told[0].batch, AuditValue.SOURCE_POSITION) == [None]
    assert landing_rows(CHANGES, RowRules(SCHEMA)).batch.schema.names == ["id", "name", "__rowMarker__"]
