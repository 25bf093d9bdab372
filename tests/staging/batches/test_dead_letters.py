"""Dead letters in the database: constraints, retention, and counts in a status."""

from typing import Any

import pytest
import sqlalchemy as sa

from app.domain.model.dead_letter import LetterFormat, NewLetter, RejectedMessage, WrittenMessage
from app.domain.model.table import BatchSequence, DropAction, DropPlan, Table
from app.staging.batches.batch import LetterReplay, TableLetters
from app.staging.batches.dead_letters import discard_letters, insert_letters, mark_replayed
from app.staging.tables.operations import begin_drop
from mirrorgate.errors import Code, Problem
from tests.support.gateway_parts import current, finished_drop
from tests.support.postgres import sql
from tests.support.postgres.ledger import counts_of
from tests.support.postgres.retention import AT_ONCE, WEEK, count, purge

INSERT = """
    INSERT INTO mirrorgate.dead_letters (table_id, generation, format, reading, message, errors, message_index,
        principal, request_name, producer_sequence, state, settled_at, settled_by, corrected, replayed_sequence)
    SELECT table_id, 1, :format, '{}', convert_to(repeat('x', :bytes), 'UTF8'), CAST(:errors AS jsonb), :message_index,
        'key', :request_name, :producer_sequence, :state, CAST(:settled_at AS timestamptz), :settled_by, :corrected,
        :replayed_sequence
    FROM mirrorgate.tables"""
WAITING = {
    "format": "arcion",
    "bytes": 2**20,
    "errors": "[{}]",
    "message_index": 0,
    "request_name": None,
    "producer_sequence": None,
    "state": "waiting",
    "settled_at": None,
    "settled_by": None,
    "corrected": False,
    "replayed_sequence": None,
}
DISCARDED = WAITING | {"state": "discarded", "settled_at": "now", "settled_by": "key"}
REPLAYED = DISCARDED | {"state": "replayed", "replayed_sequence": 1, "corrected": True}


def store(engine: sa.Engine, table: Table, number: int = 1) -> list[int]:
    """Store letters, as one request leaves them; their ids."""
    problem = Problem(Code.BAD_VALUE, "value", 0, "/after/id", "id")
    written = WrittenMessage(LetterFormat.ARCION, b"{}", {"override": False})
    new = [NewLetter(RejectedMessage(index, (problem,)), written) for index in range(number)]
    sql.call(engine, insert_letters, [(TableLetters(table, new, "key"), None)])
    return [letter_id for (letter_id,) in sql.rows(engine, "SELECT letter_id FROM mirrorgate.dead_letters ORDER BY 1")]


def discard(engine: sa.Engine, table: Table, first: int, last: int) -> int:
    ends = {"first": first, "last": last}
    return sql.call(engine, discard_letters, table.table_id, table.generation, principal="key", **ends)


@pytest.mark.parametrize("letter", [WAITING, DISCARDED, REPLAYED], ids=lambda letter: letter["state"])
def test_a_letter_waits_or_was_settled_by_somebody(engine: sa.Engine, table: Table, letter: dict[str, Any]) -> None:
    sql.attempt(engine, INSERT, **letter)


@pytest.mark.parametrize(
    ("letter", "wrong"),
    [
        (WAITING, {"format": "xml"}),
        (WAITING, {"bytes": 2**20 + 1}),
        (WAITING, {"errors": "[]"}),
        (WAITING, {"errors": "{}"}),
        (WAITING, {"message_index": -1}),
        (WAITING, {"producer_sequence": 1}),
        (WAITING, {"state": "lost"}),
        (WAITING, {"settled_at": "now", "settled_by": "key"}),
        (WAITING, {"settled_by": "key"}),
        (WAITING, {"corrected": True}),
        (DISCARDED, {"settled_at": None, "settled_by": None}),
        (DISCARDED, {"settled_by": None}),
        (DISCARDED, {"replayed_sequence": 1}),
        (DISCARDED, {"corrected": True}),
        (REPLAYED, {"replayed_sequence": None}),
        (REPLAYED, {"replayed_sequence": 0}),
    ],
    ids=lambda value: value["state"] if value.keys() == WAITING.keys() else ",".join(value),
)
def test_a_letter_that_contradicts_itself_is_rejected(
    engine: sa.Engine, table: Table, letter: dict[str, Any], wrong: dict[str, Any]
) -> None:
    with pytest.raises(sa.exc.IntegrityError):
        sql.attempt(engine, INSERT, **letter | wrong)


def test_the_status_counts_the_waiting_letters_of_the_present_generation(engine: sa.Engine, table: Table) -> None:
    assert (counts_of(engine, table).waiting_letters, counts_of(engine, table).oldest_letter_seconds) == (0, 0)
    ids = store(engine, table, 3)
    sql.run(engine, "UPDATE mirrorgate.dead_letters SET received_at = received_at - interval '1 hour'")
    assert discard(engine, table, ids[0], ids[0]) == 1
    found = counts_of(engine, table)
    assert (found.waiting_letters, 3600 <= found.oldest_letter_seconds < 7200) == (2, True)
    sql.run(engine, "UPDATE mirrorgate.dead_letters SET generation = 2")
    assert counts_of(engine, table).waiting_letters == 0


def test_discarding_a_range_leaves_what_is_settled_and_what_lies_outside(engine: sa.Engine, table: Table) -> None:
    first, second, third, fourth = store(engine, table, 4)
    sql.call(engine, mark_replayed, [(LetterReplay(second, "key", corrected=False), BatchSequence(1), table)])
    assert (discard(engine, table, first, third), discard(engine, table, first, third)) == (2, 0)
    states = sql.rows(engine, "SELECT letter_id, state FROM mirrorgate.dead_letters ORDER BY 1")
    assert states == [(first, "discarded"), (second, "replayed"), (third, "discarded"), (fourth, "waiting")]


def test_retention_purges_settled_letters_that_are_old_and_no_waiting_one(engine: sa.Engine, table: Table) -> None:
    first, *_ = store(engine, table, 3)
    discard(engine, table, first, first)
    assert purge(engine, WEEK).purged_letters == 0
    assert purge(engine, AT_ONCE).purged_letters == 1
    assert count(engine, "dead_letters") == 2


def test_the_letters_of_an_ended_generation_are_given_up_and_kept_as_long_as_settled_ones(
    engine: sa.Engine, table: Table
) -> None:
    store(engine, table, 2)
    dropping = sql.call(engine, begin_drop, table.name, table.generation, DropPlan(DropAction.RECREATE), "test")
    purge(engine, WEEK)
    assert counts_of(engine, table).waiting_letters == 2, "the generation has not ended yet"
    finished_drop(engine, dropping)
    store(engine, current(engine, "t"))
    purge(engine, WEEK)
    settled = sql.rows(engine, "SELECT generation, state, settled_by FROM mirrorgate.dead_letters ORDER BY letter_id")
    assert settled == [(1, "discarded", "retention")] * 2 + [(2, "waiting", None)]
    assert purge(engine, AT_ONCE).purged_letters == 2
