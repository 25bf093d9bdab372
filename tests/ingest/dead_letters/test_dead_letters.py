"""Rejected messages of an accepted request: which are kept, with what, and which still reject the request."""

import asyncio
import json
from typing import Any

import pytest
import sqlalchemy as sa

from app.domain.access.rights import Principal, Right
from app.domain.model import dead_letter
from app.domain.model.request_identity import RequestIdentity
from app.ingest import ArcionJson, IngestResult
from app.staging.batches import dead_letters
from mirrorgate.errors import Code
from mirrorgate.parameters import CsvLayout, CsvMode
from tests.ingest.dead_letters.conftest import FAIL_ON_LETTERS, SCHEMA, SUCCEED_AGAIN
from tests.ingest.routing.test_moving_tables import interrupt
from tests.support.ingest_harness import ADMIN, IngestHarness, named
from tests.support.postgres import sql
from tests.support.postgres.dead_letters import codes, letters, messages, waiting
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
