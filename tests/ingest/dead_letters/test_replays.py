"""Replaying dead letters: once, atomically, and read with the parameters of their request."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from app.domain.model.dead_letter import LetterState
from app.domain.model.names import TableName
from app.domain.model.table import DropAction, DropPlan
from app.formats.replicate.history import MAX_EARLIER_VERSIONS
from app.ingest.replay import ReplayedLetters
from app.staging.batches.dead_letters import discard_letters
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import CsvLayout, CsvMode
from tests.ingest.dead_letters.conftest import FAIL_ON_LETTERS, SCHEMA, SUCCEED_AGAIN
from tests.ingest.routing.test_moving_tables import interrupt
from tests.support.gateway_parts import dropping, next_generation
from tests.support.ingest_harness import IngestHarness
from tests.support.postgres import sql
from tests.support.postgres.dead_letters import letters, messages, replay, replay_all, waiting
from tests.support.rejections import rejected
from tests.support.samples.messages import arcion, data, metadata
from tests.support.samples.schemas import schema_of

WIDER = schema_of({"id": "int64", "n": "int64", "m": "int64"}, ["id"], ["id"])
BAD = arcion("t", None, {"id": "2", "n": "x"})
UNKNOWN = arcion("t", None, {"id": "3", "n": "1", "m": "7"})


def left(harness: IngestHarness, *sent: Any, table: str = "t") -> list[int]:
    """Return the ids of the letters that Arcion messages leave."""
    harness.arcion(*sent, keep_rejected=True)
    return [letter.letter_id for letter in waiting(harness.engine, table)]


def correct(**after: str) -> bytes:
    return json.dumps(arcion("t", None, after)).encode()


def states(harness: IngestHarness) -> list[LetterState]:
    return [letter.state for letter in letters(harness.engine)]


def test_a_letter_replayed_after_its_table_was_fixed_lands_behind_what_came_since(keeping: IngestHarness) -> None:
    [letter_id] = left(keeping, UNKNOWN)
    keeping.arcion(arcion("t", None, {"id": "9", "n": "9"}))
    keeping.put("t", WIDER)
    receipt = replay(keeping, letter_id)
    assert (receipt.sequence, receipt.changes) == (2, 1)
    assert keeping.landed("t", "id", "m") == [[0, 9, None], [0, 3, 7]]
    [letter] = letters(keeping.engine)
    assert (letter.state, letter.replayed_sequence, letter.settled_by) == (LetterState.REPLAYED, 2, "test")
    assert not letter.corrected


def test_a_corrected_message_lands_in_place_of_the_kept_one(keeping: IngestHarness) -> None:
    [letter_id] = left(keeping, BAD)
    replay(keeping, letter_id, correct(id="2", n="22"))
    [letter] = letters(keeping.engine)
    assert (letter.corrected, keeping.landed("t", "id", "n")) == (True, [[0, 2, 22]])
    assert messages(keeping.engine) == [json.dumps(BAD).encode()]


def test_a_letter_that_is_rejected_again_waits_on_with_what_is_wrong_now(keeping: IngestHarness) -> None:
    [letter_id] = left(keeping, arcion("t", None, {"id": "3", "n": "1", "m": "x"}))
    keeping.put("t", WIDER)
    with rejected() as rejection:
        replay(keeping, letter_id)
    [letter] = waiting(keeping.engine)
    assert (rejection.places, keeping.rows("t")) == ([(Code.BAD_VALUE, 0, "/after/m", "m")], [])
    assert [error["code"] for error in letter.errors] == ["bad_value"]


def test_a_rejected_correction_leaves_the_letter_as_it_was(keeping: IngestHarness) -> None:
    [letter_id] = left(keeping, BAD)
    with rejected(Code.UNKNOWN_COLUMN):
        replay(keeping, letter_id, correct(id="2", strange="1"))
    [letter] = waiting(keeping.engine)
    assert [error["code"] for error in letter.errors] == ["bad_value"]


@pytest.mark.parametrize(
    ("correction", "code"),
    [
        (json.dumps(arcion("u", None, {"id": "1"})).encode(), Code.TABLE_MISMATCH),
        (json.dumps([arcion("t", None, {"id": "1"})] * 2).encode(), Code.BAD_REQUEST),
        (b"{", Code.MALFORMED_JSON),
        (b"[]", Code.EMPTY_REQUEST),
    ],
    ids=["for another table", "two changes", "not JSON", "no change"],
)
def test_a_correction_is_one_change_of_the_same_table(keeping: IngestHarness, correction: bytes, code: Code) -> None:
    keeping.put("u", SCHEMA)
    [letter_id] = left(keeping, BAD)
    with rejected() as rejection:
        replay(keeping, letter_id, correction)
    assert (rejection.code, states(keeping)) == (code, [LetterState.WAITING])


def test_a_letter_is_replayed_once(keeping: IngestHarness) -> None:
    [letter_id] = left(keeping, BAD)
    replay(keeping, letter_id, correct(id="2"))
    for again in (lambda: replay(keeping, letter_id), lambda: replay(keeping, letter_id, correct(id="2"))):
        with rejected(Code.DEAD_LETTER_SETTLED):
            again()
    assert len(keeping.rows("t")) == 1


def test_of_many_replays_at_once_one_lands(keeping: IngestHarness) -> None:
    [letter_id] = left(keeping, BAD)

    def attempt(harness: IngestHarness) -> Code | None:
        try:
            replay(harness, letter_id, correct(id="2"))
        except RejectedInput as error:
            return error.code
        return None

    with ThreadPoolExecutor(6) as pool:
        outcomes = [*pool.map(attempt, [keeping, keeping.other] * 3)]
    assert sorted(outcomes, key=str) == [None, *[Code.DEAD_LETTER_SETTLED] * 5]
    assert (len(keeping.rows("t")), states(keeping)) == (1, [LetterState.REPLAYED])


def test_a_letter_that_is_discarded_while_it_is_replayed_does_not_land(keeping: IngestHarness) -> None:
    [letter_id] = left(keeping, BAD)
    table = keeping.table("t")

    def discard() -> None:
        ends = {"first": letter_id, "last": letter_id}
        sql.call(keeping.engine, discard_letters, table.table_id, table.generation, principal="test", **ends)

    interrupt(keeping, discard)
    with rejected() as rejection:
        replay(keeping, letter_id, correct(id="2"))
    assert (rejection.code, keeping.rows("t")) == (Code.DEAD_LETTER_SETTLED, [])
    assert states(keeping) == [LetterState.DISCARDED]


def test_a_batch_and_the_settling_of_its_letter_are_durable_together_or_not_at_all(keeping: IngestHarness) -> None:
    [letter_id] = left(keeping, BAD)
    sql.run(keeping.engine, FAIL_ON_LETTERS)
    with pytest.raises(sa.exc.DBAPIError):
        replay(keeping, letter_id, correct(id="2"))
    assert (keeping.rows("t"), states(keeping)) == ([], [LetterState.WAITING])
    sql.run(keeping.engine, SUCCEED_AGAIN)
    assert replay(keeping, letter_id, correct(id="2")).sequence == 1


def test_a_replay_of_many_letters_ends_in_time_and_says_where_to_continue(
    keeping: IngestHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = left(keeping, *(arcion("t", None, {"id": str(key), "n": "1", "m": "7"}) for key in range(3)))
    keeping.put("t", WIDER)
    monkeypatch.setattr("app.ingest.replay.MAX_REPLAY_SECONDS", 0.0)
    assert replay_all(keeping) == ReplayedLetters(replayed=1, rejected=0, next_after=ids[0])
    assert replay_all(keeping, after=ids[0]) == ReplayedLetters(replayed=1, rejected=0, next_after=ids[1])
    assert replay_all(keeping, after=ids[1]) == ReplayedLetters(replayed=1, rejected=0, next_after=None)


def test_all_waiting_letters_are_replayed_in_order_and_a_rejected_one_holds_no_other_back(
    keeping: IngestHarness,
) -> None:
    unknown = [arcion("t", None, {"id": str(key), "n": "1", "m": "7"}) for key in range(5)]
    ids = left(keeping, unknown[0], unknown[1], BAD, unknown[2], unknown[3])
    keeping.put("t", WIDER)
    first = replay_all(keeping, limit=3)
    assert first == ReplayedLetters(replayed=2, rejected=1, next_after=ids[2])
    assert replay_all(keeping, after=ids[2], limit=3) == ReplayedLetters(replayed=2, rejected=0, next_after=None)
    assert [row["id"] for row in keeping.rows("t")] == [0, 1, 2, 3]
    assert [letter.letter_id for letter in waiting(keeping.engine)] == [ids[2]]


def test_replaying_all_stops_at_what_concerns_the_table(keeping: IngestHarness) -> None:
    left(keeping, BAD, BAD)
    dropping(keeping.engine, "t")
    with rejected() as rejection:
        replay_all(keeping)
    assert (rejection.code, states(keeping)) == (Code.TABLE_NOT_ACCEPTING, [LetterState.WAITING] * 2)


def test_a_letter_of_an_ended_generation_is_readable_and_cannot_be_replayed(keeping: IngestHarness) -> None:
    [letter_id] = left(keeping, BAD)
    next_generation(keeping.engine, "t", DropPlan(DropAction.RECREATE))
    keeping.ingest.table_cache.forget_table(TableName.parse("t"))
    with rejected() as rejection:
        replay(keeping, letter_id, correct(id="2"))
    assert (rejection.code, keeping.rows("t")) == (Code.GENERATION_MISMATCH, [])
    assert [letter.generation for letter in letters(keeping.engine)] == [1]
    assert messages(keeping.engine) == [json.dumps(BAD).encode()]
    assert replay_all(keeping) == ReplayedLetters(0, 0, None)


def test_a_generation_that_ends_while_a_letter_is_replayed_keeps_it_out(keeping: IngestHarness) -> None:
    [letter_id] = left(keeping, BAD)
    interrupt(keeping, lambda: next_generation(keeping.engine, "t", DropPlan(DropAction.RECREATE)))
    with rejected() as rejection:
        replay(keeping, letter_id, correct(id="2"))
    assert (rejection.code, keeping.rows("t")) == (Code.GENERATION_MISMATCH, [])


def test_a_letter_for_an_overridden_table_is_read_as_before(keeping: IngestHarness) -> None:
    message = arcion("elsewhere", None, {"id": "3", "n": "1", "m": "7"})
    keeping.arcion(message, table="t", override=True, keep_rejected=True)
    keeping.put("t", WIDER)
    [letter] = waiting(keeping.engine)
    replay(keeping, letter.letter_id)
    assert keeping.landed("t", "id", "m") == [[0, 3, 7]]


@pytest.mark.parametrize("header", [True, False])
def test_a_csv_record_is_read_with_the_columns_and_signs_of_its_request(keeping: IngestHarness, header: bool) -> None:
    columns = () if header else ("n", "id")
    layout = CsvLayout(CsvMode.SNAPSHOT, columns, header, ";", "'", "\\", "-")
    keeping.csv("n;id\n" * header + "'1\\'';'2'\n3;3\n", "t", layout, keep_rejected=True)
    [letter] = waiting(keeping.engine)
    assert messages(keeping.engine) == [b"'1\\'';'2'\n"]
    replay(keeping, letter.letter_id, b"-;'2'")
    assert keeping.landed("t", "id", "n") == [[0, 3, 3], [0, 2, None]]


def test_the_masks_of_a_replicate_message_count_the_columns_of_its_own_metadata(harness: IngestHarness) -> None:
    """The later metadata has no column `n`; there bit 1 means another column."""
    harness.replicate(metadata("t", {"id": "INT8", "n": "INT4", "m": "INT8"}, version=1))
    harness.put("t", dead_letters="accept")
    message = data("UPDATE", {"id": 1, "n": "x", "m": 5}, {"id": 1}, schema_id="t-1", columnMask="07")
    harness.replicate(message, keep_rejected=True)
    harness.replicate(metadata("t", {"id": "INT8", "m": "INT8"}, version=2))
    [letter] = waiting(harness.engine)
    message["message"]["data"]["n"] = 4
    replay(harness, letter.letter_id, json.dumps(message).encode())
    assert harness.landed("t", "id", "n", "m") == [[1, 1, 4, 5]]


def test_a_replicate_message_from_before_any_metadata_is_read_without_it(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, dead_letters="accept")
    harness.replicate(data("INSERT", {"id": 1, "n": "x"}, columnMask="03"), table="t", keep_rejected=True)
    harness.replicate(metadata("t", {"id": "INT8", "n": "INT8", "m": "INT8"}))
    [letter] = waiting(harness.engine)
    replay(harness, letter.letter_id, json.dumps(data("INSERT", {"id": 1, "n": 2})).encode())
    assert harness.landed("t", "id", "n", "m") == [[0, 1, 2, None]]


def test_a_message_whose_metadata_is_forgotten_is_rejected_and_metadata_cannot_be_replayed(
    harness: IngestHarness,
) -> None:
    harness.replicate(metadata("t", {"id": "INT8"}))
    harness.put("t", dead_letters="accept")
    harness.replicate(data("INSERT", {"id": "x"}, schema_id="t-1"), keep_rejected=True)
    [letter] = waiting(harness.engine)
    with rejected() as rejection:
        replay(harness, letter.letter_id, json.dumps(metadata("t", {"id": "INT8", "n": "INT8"}, version=2)).encode())
    assert (rejection.code, harness.table("t").schema.names) == (Code.BAD_REQUEST, ("id",))
    for version in range(2, MAX_EARLIER_VERSIONS + 3):
        harness.replicate(metadata("t", {"id": "INT8"}, version=version))
    with rejected() as rejection:
        replay(harness, letter.letter_id, json.dumps(data("INSERT", {"id": 1})).encode())
    assert (rejection.code, states(harness)) == (Code.SCHEMA_MISMATCH, [LetterState.WAITING])


def test_a_table_that_enforces_the_order_by_now_takes_no_older_change(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, dead_letters="accept")
    harness.replicate(data("INSERT", {"id": 1, "n": "x"}, sequence=1), table="t", keep_rejected=True)
    harness.put("t", source_order="enforce")
    harness.replicate(data("INSERT", {"id": 2, "n": 2}, sequence=2), table="t")
    [letter] = waiting(harness.engine)
    with rejected() as rejection:
        replay(harness, letter.letter_id, json.dumps(data("INSERT", {"id": 1, "n": 1}, sequence=1)).encode())
    assert (rejection.code, harness.landed("t", "id")) == (Code.OUT_OF_ORDER, [[0, 2]])
    assert states(harness) == [LetterState.WAITING]
