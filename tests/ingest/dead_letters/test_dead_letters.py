"""Dead letters: which messages are kept, with what, and how they are replayed."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from app.domain.access.rights import Principal, Right
from app.domain.model import dead_letter
from app.domain.model.dead_letter import LetterState
from app.domain.model.names import TableName
from app.domain.model.request_identity import RequestIdentity
from app.domain.model.table import DropAction, DropPlan
from app.formats.replicate.history import MAX_EARLIER_VERSIONS
from app.ingest import ArcionJson, IngestResult
from app.ingest.replay import ReplayedLetters
from app.staging.batches import dead_letters
from app.staging.batches.dead_letters import discard_letters
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import CsvLayout, CsvMode
from tests.ingest.dead_letters.conftest import FAIL_ON_LETTERS, SCHEMA, SUCCEED_AGAIN
from tests.ingest.routing.test_moving_tables import interrupt
from tests.support.gateway_parts import dropping, next_generation
from tests.support.ingest_harness import ADMIN, IngestHarness, named
from tests.support.postgres import sql
from tests.support.postgres.dead_letters import codes, letters, messages, replay, replay_all, waiting
from tests.support.rejections import rejected
from tests.support.samples.messages import arcion, data, metadata
from tests.support.samples.schemas import schema_of

GOOD = arcion("t", None, {"id": "1", "n": "1"})
BAD = arcion("t", None, {"id": "2", "n": "no number"})


def named_request(harness: IngestHarness, *sent: Any, name: str = "k", number: int = 0) -> IngestResult:
    identity = RequestIdentity("test", name, b"x" * 32, number)
    decode = ArcionJson(json.dumps(sent).encode(), keep_rejected=True)
    return asyncio.run(harness.ingest.accept(decode, ADMIN, identity))


def test_a_rejected_message_is_kept_as_it_was_written_and_the_others_land(keeping: IngestHarness) -> None:
    body = b"\xef\xbb\xbf [ %b,\n  %b , %b]\n" % tuple(
        json.dumps(message, indent=number).encode() for number, message in enumerate([GOOD, BAD, GOOD])
    )
    accepted = keeping.accept(ArcionJson(body, keep_rejected=True))
    assert (accepted.dead_letters, [receipt.changes for receipt in accepted.receipts]) == (1, [2])
    assert keeping.landed("t", "id", "n") == [[0, 1, 1], [0, 1, 1]]
    assert messages(keeping.engine) == [json.dumps(BAD, indent=1).encode()]
    [letter] = waiting(keeping.engine)
    assert (letter.message_index, letter.format, letter.principal, letter.generation) == (1, "arcion", "test", 1)
    [error] = letter.errors
    assert (error["code"], error["pointer"], error["column"]) == ("bad_value", "/after/n", "n")
    assert "no number" not in json.dumps(letter.errors)


def test_without_the_parameter_the_request_is_rejected_and_nothing_is_kept(keeping: IngestHarness) -> None:
    with rejected() as rejection:
        keeping.arcion(GOOD, BAD)
    assert (rejection.code, keeping.rows("t"), letters(keeping.engine)) == (Code.BAD_VALUE, [], [])


def test_a_table_that_rejects_dead_letters_rejects_the_request(keeping: IngestHarness) -> None:
    keeping.put("u", SCHEMA)
    with rejected(places=[(Code.BAD_VALUE, 1, "/after/n", "n")]) as rejection:
        keeping.arcion(BAD, arcion("u", None, {"id": "1", "n": "x"}), GOOD, keep_rejected=True)
    assert "table u keeps no dead letters: its option dead_letters is reject" in rejection.text
    assert (keeping.rows("t"), letters(keeping.engine), letters(keeping.engine, "u")) == ([], [], [])


def test_a_request_of_rejected_messages_only_is_accepted_without_a_batch(keeping: IngestHarness) -> None:
    accepted = keeping.arcion(BAD, BAD, keep_rejected=True)
    assert (accepted.receipts, accepted.dead_letters, len(waiting(keeping.engine))) == ([], 2, 2)


def test_letters_of_several_tables_are_kept_with_their_tables(keeping: IngestHarness) -> None:
    keeping.put("u", SCHEMA, dead_letters="accept")
    strange = arcion("u", None, {"id": "1", "strange": "1"})
    accepted = keeping.arcion(strange, BAD, GOOD, arcion("u", None, {"id": None}), keep_rejected=True)
    assert (accepted.dead_letters, [receipt.table for receipt in accepted.receipts]) == (3, ["t"])
    assert codes(keeping.engine) == [(1, {"bad_value"})]
    assert codes(keeping.engine, "u") == [(0, {"unknown_column"}), (3, {"null_key"})]


def test_each_format_keeps_what_its_decoder_rejects(keeping: IngestHarness) -> None:
    keeping.arcion(GOOD | {"opType": "?"}, GOOD | {"exists": {}}, GOOD, keep_rejected=True)
    layout = CsvLayout(CsvMode.SNAPSHOT, header=True)
    keeping.put("snapshots", SCHEMA, dead_letters="accept")
    text = 'n,id\r\n1,1\r\n\r\n2\r\n"a\nb",3\r\n4,4\r\n'
    keeping.csv(text, "snapshots", layout, keep_rejected=True)
    masked = data("INSERT", {"id": 1}, columnMask="no mask")
    keeping.replicate(None, masked, data("MERGE", {"id": 1}), data("INSERT", {"id": 7}), table="t", keep_rejected=True)
    found = [(0, {"bad_op"}), (1, {"exists_mismatch"}), (1, {"bad_mask"}), (2, {"bad_op"})]
    assert codes(keeping.engine) == found
    assert codes(keeping.engine, "snapshots") == [(1, {"csv_field_count"}), (2, {"bad_value"})]
    assert messages(keeping.engine, "snapshots") == [b"2\r\n", b'"a\nb",3\r\n']
    details = [letter.errors[0]["detail"] for letter in letters(keeping.engine, "snapshots")]
    assert [detail.partition(":")[0] for detail in details] == ["line 4", "line 5"]
    assert [row["id"] for row in keeping.rows("t")] == [1, 7]


def test_a_mask_that_does_not_fit_the_metadata_is_kept_with_its_message(harness: IngestHarness) -> None:
    harness.replicate(metadata("t", {"id": "INT8", "n": "INT8"}))
    harness.put("t", dead_letters="accept")
    wide = data("INSERT", {"id": 1, "n": 1}, schema_id="t-1", columnMask="FF")
    harness.replicate(wide, data("INSERT", {"id": 2, "n": 2}, schema_id="t-1"), keep_rejected=True)
    assert (codes(harness.engine), harness.landed("t", "id")) == ([(0, {"mask_out_of_range"})], [[0, 2]])


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ([GOOD, {"opType": "I"}], Code.MALFORMED_MESSAGE),
        ([BAD, arcion("nobody", None, {"id": "1"})], Code.UNKNOWN_TABLE),
        ([arcion("nobody", None, {"id": "1"}) | {"opType": "?"}], Code.UNKNOWN_TABLE),
        ([arcion("t", None, {"__rowMarker__": "1", "id": "1"})], Code.RESERVED_NAME),
    ],
    ids=["not of the format's shape", "unknown table", "bad operation for an unknown table", "reserved name"],
)
def test_what_concerns_more_than_a_message_rejects_the_request(
    keeping: IngestHarness, sent: list[Any], code: Code
) -> None:
    with rejected() as rejection:
        keeping.arcion(*sent, keep_rejected=True)
    assert (rejection.code, keeping.rows("t"), letters(keeping.engine)) == (code, [], [])


def test_a_replicate_message_without_a_table_and_one_of_another_version_reject_the_request(
    harness: IngestHarness,
) -> None:
    harness.replicate(metadata("t", {"id": "INT8"}))
    harness.put("t", dead_letters="accept")
    for message, code in [
        (data("MERGE", {"id": 1}), Code.UNKNOWN_TABLE),
        (data("MERGE", {"id": 1}, schema_id="other", table="t"), Code.SCHEMA_MISMATCH),
        (data("INSERT", None, table="t"), Code.MALFORMED_MESSAGE),
    ]:
        with rejected(code):
            harness.replicate(message, data("INSERT", {"id": 1}, table="t"), keep_rejected=True)
    assert (harness.rows("t"), letters(harness.engine)) == ([], [])


def test_a_table_outside_the_callers_keeps_nothing(keeping: IngestHarness) -> None:
    stranger = Principal("other", frozenset({Right.INGEST}), ("sales.*",))
    with rejected() as rejection:
        keeping.arcion(BAD, key=stranger, keep_rejected=True)
    assert (rejection.code, letters(keeping.engine)) == (Code.UNKNOWN_TABLE, [])


def test_later_changes_of_the_row_of_a_rejected_message_land(keeping: IngestHarness) -> None:
    update = arcion("t", {"id": "2"}, {"id": "2", "n": "5"})
    accepted = keeping.arcion(BAD, update, keep_rejected=True)
    assert (accepted.dead_letters, keeping.landed("t", "id", "n")) == (1, [[1, 2, 5]])


def test_a_partial_update_that_a_rejected_insert_would_have_completed_is_kept_too(harness: IngestHarness) -> None:
    harness.put("t", schema_of({"id": "int64", "n": "int64", "m": "int64"}, ["id"]), **{
        "dead_letters": "accept", "partial_updates": "complete"
    })  # fmt: skip
    partial = arcion("t", {"id": "2"}, {"id": "2", "n": "5"})
    other = arcion("t", None, {"id": "3", "n": "1", "m": "1"})
    harness.arcion(arcion("t", None, {"id": "2", "n": "x", "m": "1"}), partial, other, keep_rejected=True)
    assert codes(harness.engine) == [(0, {"bad_value"}), (1, {"incomplete_update"})]
    assert harness.landed("t", "id") == [[0, 3]]


def test_the_tries_do_not_grow_with_the_messages_that_nothing_completes(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, partial_updates="complete", dead_letters="accept")
    writer = interrupt(harness)
    partial = arcion("t", {"id": "2"}, {"id": "2"})
    accepted = harness.arcion(GOOD, *[partial] * 50, keep_rejected=True)
    assert (accepted.dead_letters, writer.submitted) == (50, 3)  # on the columnar path, with and without the letters


def test_a_column_that_only_a_rejected_message_has_is_not_added(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, new_columns="add_as_string", dead_letters="accept")
    spoilt = arcion("t", None, {"id": "1", "n": "x", "new": "1"})
    update = arcion("t", {"id": "1"}, {"id": "1", "n": "2"})
    harness.arcion(spoilt, update, keep_rejected=True)
    assert (harness.table("t").schema.names, harness.landed("t", "id", "n")) == (("id", "n"), [[1, 1, 2]])


def test_a_message_that_fits_once_its_table_has_changed_is_not_left_out(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, dead_letters="accept")
    wide = schema_of({"id": "int64", "n": "int64", "m": "int64"}, ["id"], ["id"])
    writer = interrupt(harness, lambda: harness.other.put("t", wide))
    accepted = harness.arcion(GOOD, arcion("t", None, {"id": "2", "n": "1", "m": "1"}), keep_rejected=True)
    assert (writer.submitted, accepted.dead_letters, letters(harness.engine)) == (2, 0, [])
    assert harness.landed("t", "id", "m") == [[0, 1, None], [0, 2, 1]]


def test_a_table_that_stops_keeping_letters_meanwhile_rejects_the_request(harness: IngestHarness) -> None:
    harness.put("t", SCHEMA, dead_letters="accept")
    interrupt(harness, lambda: harness.other.put("t", dead_letters="reject"))
    with rejected() as rejection:
        harness.arcion(BAD, keep_rejected=True)
    assert (rejection.code, letters(harness.engine)) == (Code.BAD_VALUE, [])


@pytest.mark.parametrize(("name", "number"), [("a-key", 0), ("producer", 1)])
def test_a_repeated_request_gets_the_same_counts_and_keeps_nothing_again(
    keeping: IngestHarness, name: str, number: int
) -> None:
    first, second = (named_request(keeping, GOOD, BAD, name=name, number=number) for _ in range(2))
    assert (first.dead_letters, first.replayed, second.dead_letters, second.replayed) == (1, False, 1, True)
    assert (second.receipts, len(keeping.rows("t"))) == (first.receipts, 1)
    [letter] = letters(keeping.engine)
    assert (letter.request_name, letter.producer_sequence) == (name, number or None)


def test_an_answer_from_before_dead_letters_still_reads(keeping: IngestHarness) -> None:
    named_request(keeping, GOOD)
    sql.run(keeping.engine, "UPDATE mirrorgate.request_receipts SET answer = answer - 'dead_letters'")
    again = named_request(keeping, GOOD)
    assert (again.replayed, again.dead_letters) == (True, 0)


def test_letters_batches_and_receipt_are_durable_together_or_not_at_all(keeping: IngestHarness) -> None:
    sql.run(keeping.engine, FAIL_ON_LETTERS)
    with pytest.raises(sa.exc.DBAPIError):
        named_request(keeping, GOOD, BAD)
    assert (keeping.rows("t"), letters(keeping.engine)) == ([], [])
    sql.run(keeping.engine, SUCCEED_AGAIN)
    accepted = named_request(keeping, GOOD, BAD)
    assert (accepted.replayed, [receipt.sequence for receipt in accepted.receipts]) == (False, [1])
    assert len(letters(keeping.engine)) == 1


def test_a_table_with_as_many_letters_as_are_kept_rejects_the_request(
    keeping: IngestHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "MAX_WAITING_LETTERS", 2)
    keeping.arcion(BAD, keep_rejected=True)
    with rejected() as rejection:
        keeping.arcion(GOOD, BAD, BAD, keep_rejected=True)
    assert (rejection.code, [place[1] for place in rejection.places]) == (Code.DEAD_LETTERS_FULL, [1, 2])
    assert (keeping.rows("t"), len(letters(keeping.engine))) == ([], 1)
    keeping.arcion(GOOD, BAD, keep_rejected=True)
    assert len(letters(keeping.engine)) == 2


def test_the_bytes_of_waiting_letters_are_bounded(keeping: IngestHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "MAX_WAITING_BYTES", len(json.dumps(BAD)) + 1)
    keeping.arcion(BAD, keep_rejected=True)
    with rejected() as rejection:
        keeping.arcion(BAD, keep_rejected=True)
    assert (rejection.code, len(letters(keeping.engine))) == (Code.DEAD_LETTERS_FULL, 1)


def test_a_message_that_is_too_long_to_be_kept_rejects_the_request(keeping: IngestHarness) -> None:
    long = arcion("t", None, {"id": "2", "n": "x" * dead_letter.MAX_LETTER_BYTES})
    with rejected() as rejection:
        keeping.arcion(GOOD, long, keep_rejected=True)
    assert (rejection.code, keeping.rows("t"), letters(keeping.engine)) == (Code.DEAD_LETTERS_FULL, [], [])


def test_the_option_does_not_go_with_an_enforced_order(harness: IngestHarness) -> None:
    with rejected(places=[(Code.BAD_OPTION, None, "/options/dead_letters", None)]):
        harness.put("t", SCHEMA, dead_letters="accept", source_order="enforce")


def test_an_override_is_kept_with_the_message(keeping: IngestHarness) -> None:
    elsewhere = arcion("elsewhere", None, {"id": "2", "n": "x"})
    decode = ArcionJson(json.dumps([elsewhere]).encode(), named("t"), override=True, keep_rejected=True)
    assert keeping.accept(decode).dead_letters == 1
    assert sql.value(keeping.engine, "SELECT reading ->> 'override' FROM mirrorgate.dead_letters") == "true"


WIDER = schema_of({"id": "int64", "n": "int64", "m": "int64"}, ["id"], ["id"])
WAITING_BAD = arcion("t", None, {"id": "2", "n": "x"})
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
    [letter_id] = left(keeping, WAITING_BAD)
    replay(keeping, letter_id, correct(id="2", n="22"))
    [letter] = letters(keeping.engine)
    assert (letter.corrected, keeping.landed("t", "id", "n")) == (True, [[0, 2, 22]])
    assert messages(keeping.engine) == [json.dumps(WAITING_BAD).encode()]


def test_a_letter_that_is_rejected_again_waits_on_with_what_is_wrong_now(keeping: IngestHarness) -> None:
    [letter_id] = left(keeping, arcion("t", None, {"id": "3", "n": "1", "m": "x"}))
    keeping.put("t", WIDER)
    with rejected() as rejection:
        replay(keeping, letter_id)
    [letter] = waiting(keeping.engine)
    assert (rejection.places, keeping.rows("t")) == ([(Code.BAD_VALUE, 0, "/after/m", "m")], [])
    assert [error["code"] for error in letter.errors] == ["bad_value"]


def test_a_rejected_correction_leaves_the_letter_as_it_was(keeping: IngestHarness) -> None:
    [letter_id] = left(keeping, WAITING_BAD)
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
    [letter_id] = left(keeping, WAITING_BAD)
    with rejected() as rejection:
        replay(keeping, letter_id, correction)
    assert (rejection.code, states(keeping)) == (code, [LetterState.WAITING])


def test_of_many_replays_at_once_one_lands(keeping: IngestHarness) -> None:
    [letter_id] = left(keeping, WAITING_BAD)

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
    [letter_id] = left(keeping, WAITING_BAD)
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
    [letter_id] = left(keeping, WAITING_BAD)
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
    ids = left(keeping, unknown[0], unknown[1], WAITING_BAD, unknown[2], unknown[3])
    keeping.put("t", WIDER)
    first = replay_all(keeping, limit=3)
    assert first == ReplayedLetters(replayed=2, rejected=1, next_after=ids[2])
    assert replay_all(keeping, after=ids[2], limit=3) == ReplayedLetters(replayed=2, rejected=0, next_after=None)
    assert [row["id"] for row in keeping.rows("t")] == [0, 1, 2, 3]
    assert [letter.letter_id for letter in waiting(keeping.engine)] == [ids[2]]


def test_replaying_all_stops_at_what_concerns_the_table(keeping: IngestHarness) -> None:
    left(keeping, WAITING_BAD, WAITING_BAD)
    dropping(keeping.engine, "t")
    with rejected() as rejection:
        replay_all(keeping)
    assert (rejection.code, states(keeping)) == (Code.TABLE_NOT_ACCEPTING, [LetterState.WAITING] * 2)


def test_a_letter_of_an_ended_generation_is_readable_and_cannot_be_replayed(keeping: IngestHarness) -> None:
    [letter_id] = left(keeping, WAITING_BAD)
    next_generation(keeping.engine, "t", DropPlan(DropAction.RECREATE))
    keeping.ingest.table_cache.forget_table(TableName.parse("t"))
    with rejected() as rejection:
        replay(keeping, letter_id, correct(id="2"))
    assert (rejection.code, keeping.rows("t")) == (Code.GENERATION_MISMATCH, [])
    assert [letter.generation for letter in letters(keeping.engine)] == [1]
    assert messages(keeping.engine) == [json.dumps(WAITING_BAD).encode()]
    assert replay_all(keeping) == ReplayedLetters(0, 0, None)


def test_a_generation_that_ends_while_a_letter_is_replayed_keeps_it_out(keeping: IngestHarness) -> None:
    [letter_id] = left(keeping, WAITING_BAD)
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
