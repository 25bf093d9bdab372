"""Payloads are encoded before the transaction wherever its locks do not decide how rows land."""

from typing import Any, Final

import pytest
import sqlalchemy as sa

from app.domain.arrow import decode_payload
from app.domain.model.table import Table
from app.domain.model.table_options import TableOptions
from app.staging.batches.batch import StagingRequest
from app.staging.batches.stage_transaction import encode_blocks, stage_requests
from tests.support.gateway_parts import inserts, registered, typed
from tests.support.postgres import sql
from tests.support.samples.schemas import schema_of

SCHEMA: Final = schema_of({"id": "int64", "city": "string"}, ["id"], ["id"])
ROME: Final = {"column": "city", "op": "=", "value": "Rome"}
ROWS: Final = [{"id": 1, "city": "Rome"}, {"id": 2, "city": "Oslo"}]


def stage(engine: sa.Engine, table: Table, *rows: dict[str, Any]) -> tuple[list[bytes], list[dict[str, Any]]]:
    """Stage each row in a request of its own; return the payloads made before, and the rows that land."""
    requests = [StagingRequest([typed(table, inserts([row]))]) for row in rows]
    encoded = encode_blocks(requests)
    payloads = [payload.message for payload in encoded.values()]
    sql.call(engine, stage_requests, requests, encoded)
    newest = "SELECT payload FROM mirrorgate.block_payloads ORDER BY first_sequence DESC LIMIT 1"
    stored = bytes(sql.value(engine, newest))
    assert not payloads or payloads == [stored] or table.options.keeps_images
    return payloads, decode_payload(stored, table.schema.landing.arrow).to_pylist()


@pytest.mark.parametrize(
    ("options", "landing"),
    [
        ({}, ROWS),
        ({"rename": {"city": "town"}}, [{"id": row["id"], "town": row["city"]} for row in ROWS]),
        ({"constants": {"of": {"type": "int32", "value": "7"}}}, [row | {"of": 7} for row in ROWS]),
        ({"audit_columns": {"operation": "op"}}, [row | {"op": "insert"} for row in ROWS]),
    ],
)
def test_payloads_are_encoded_before_the_transaction(
    engine: sa.Engine, options: dict[str, Any], landing: list[dict[str, Any]]
) -> None:
    table = registered(engine, "t", SCHEMA, TableOptions.parse(options))
    payloads, rows = stage(engine, table, *ROWS)
    assert len(payloads) == 1
    assert rows == [row | {"__rowMarker__": 0} for row in landing]


def test_a_filter_is_applied_before_the_transaction(engine: sa.Engine) -> None:
    table = registered(engine, "t", SCHEMA, TableOptions.parse({"filter": ROME}))
    payloads, rows = stage(engine, table, *ROWS)
    assert len(payloads) == 1
    assert [(row["id"], row["__rowMarker__"]) for row in rows] == [(1, 0), (2, 2)]


@pytest.mark.parametrize("value", ["row_order", "accepted_at"])
def test_what_names_the_batch_waits_for_its_lock(engine: sa.Engine, value: str) -> None:
    table = registered(engine, "t", SCHEMA, TableOptions.parse({"audit_columns": {value: "_of_batch"}}))
    payloads, rows = stage(engine, table, *ROWS)
    assert not payloads
    assert len({row["_of_batch"] for row in rows} - {None}) == (2 if value == "row_order" else 1)


def test_rows_that_the_lock_changes_are_encoded_again(engine: sa.Engine) -> None:
    options = {"partial_updates": "complete", "rename": {"city": "town"}}
    table = registered(engine, "t", SCHEMA, TableOptions.parse(options))
    stage(engine, table, *ROWS)
    payloads, rows = stage(engine, table, {"id": 1, "city": "Bern"}, {"id": 3, "city": "Rome"})
    assert len(payloads) == 1
    assert [(row["id"], row["town"], row["__rowMarker__"]) for row in rows] == [(1, "Bern", 4), (3, "Rome", 0)]
