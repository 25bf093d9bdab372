"""A wrong event becomes a dead letter as it was written, and is read again in the same way."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from app.domain.model.table_options import TimestampUnit
from app.formats.debezium.values import Tombstones
from mirrorgate.errors import Code
from tests.support.ingest_harness import IngestHarness
from tests.support.postgres.dead_letters import messages, replay, waiting
from tests.support.rejections import rejected
from tests.support.samples.debezium import event, keyed
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int32", "at": "timestamp", "v": "int16"}, ["id"], ["id"])
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def created(key: int, value: Any, op: str = "c") -> dict[str, Any]:
    return keyed({"id": key}, event(op, "public.t", after={"id": key, "at": 1767323045000, "v": value}))


@pytest.fixture
def keeping(harness: IngestHarness) -> IngestHarness:
    harness.put("public.t", SCHEMA, dead_letters="accept")
    return harness


def test_wrong_events_are_kept_as_written_and_the_others_land(keeping: IngestHarness) -> None:
    sent = (created(1, "x"), created(2, 2), created(3, 3, op="x"), created(4, 70_000))
    result = keeping.debezium(*sent, keep=True, timestamps=(("*", TimestampUnit.MILLIS),))
    assert (result.dead_letters, keeping.landed("public.t", "id", "at", "v")) == (3, [[0, 2, AT, 2]])
    assert [json.loads(written) for written in messages(keeping.engine, "public.t")] == [sent[0], sent[2], sent[3]]
    errors = [letter.errors[0]["code"] for letter in waiting(keeping.engine, "public.t")]
    assert errors == [Code.BAD_VALUE, Code.BAD_OP, Code.BAD_VALUE]


def test_a_replay_reads_the_correction_with_the_parameters_of_its_request(keeping: IngestHarness) -> None:
    keeping.debezium(created(1, "x"), keep=True, timestamps=(("*", TimestampUnit.MILLIS),))
    [letter] = waiting(keeping.engine, "public.t")
    with rejected(Code.BAD_VALUE):
        replay(keeping, letter.letter_id, table="public.t")
    replay(keeping, letter.letter_id, json.dumps(created(1, 5)).encode(), table="public.t")
    assert keeping.landed("public.t", "id", "at", "v") == [[0, 1, AT, 5]]


def test_a_rejected_row_does_not_hide_that_a_tombstone_can_be_a_delete(keeping: IngestHarness) -> None:
    wrong, tombstone = {"id": 1, "v": 1, "__op": "x"}, keyed({"id": 2}, None)
    with rejected(places=[(Code.BAD_REQUEST, 1, "/value", None)]):
        keeping.debezium(keyed({"id": 1}, wrong), tombstone, table="public.t", keep=True)
    said = keyed({"id": 1}, {**wrong, "__deleted": "false"})
    for marked in (said, created(1, 1, op="x")):
        result = keeping.debezium(marked, tombstone, table="public.t", keep=True)
        assert (result.dead_letters, result.ignored) == (1, 1)


def test_a_tombstone_that_names_no_row_is_kept_for_its_correction(keeping: IngestHarness) -> None:
    result = keeping.debezium(keyed(5, None), table="public.t", keep=True, tombstones=Tombstones.DELETE)
    assert result.dead_letters == 1
    [letter] = waiting(keeping.engine, "public.t")
    replay(keeping, letter.letter_id, json.dumps(keyed({"id": 5}, None)).encode(), table="public.t")
    assert keeping.landed("public.t", "id") == [[2, 5]]
