"""Replicate schema ids: the table and version that a data message belongs to."""

import pytest

from app.domain.access.rights import Principal, Right
from mirrorgate.errors import Code
from tests.support.ingest_harness import IngestHarness
from tests.support.rejections import rejected
from tests.support.samples.messages import Message, data, metadata
from tests.support.samples.schemas import schema_of

OLD = {"id": "INT8", "name": "WSTRING"}
NAMED = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])
NEW = {"id": "INT8", "note": "WSTRING", "name": "WSTRING"}


def key_for(*patterns: str) -> Principal:
    return Principal("k", frozenset({Right.INGEST, Right.REGISTER}), patterns)


def row(number: int, schema_id: str = "shared", **facts: str) -> Message:
    return data("INSERT", {"id": number, "name": facts.pop("name", "x")}, schema_id=schema_id, **facts)


def shared(table: str, **facts: str | int) -> Message:
    return metadata(table, OLD, schema_id="shared", **facts)


def ids(harness: IngestHarness, table: str) -> list[int]:
    return [number for _, number in harness.landed(table, "id")]


def test_rows_follow_the_last_metadata_before_them_that_has_their_schema_id(harness: IngestHarness) -> None:
    accepted = harness.replicate(shared("s.one"), row(1), shared("s.two"), row(2), shared("s.one"), row(3))
    assert {receipt.table: receipt.changes for receipt in accepted.receipts} == {"s.one": 2, "s.two": 1}
    assert (ids(harness, "s.one"), ids(harness, "s.two")) == ([1, 3], [2])


def test_an_id_that_two_tables_have_is_ambiguous_and_the_table_parameter_settles_it(harness: IngestHarness) -> None:
    harness.replicate(shared("s.one"), shared("s.two"))
    for process in (harness, harness.other):
        with rejected(places=[(Code.AMBIGUOUS_SCHEMA_ID, 0, "/messageSchemaId", None)]) as rejection:
            process.replicate(row(1))
        assert "?table=" in rejection.text
    harness.replicate(row(1), table="s.two")
    harness.replicate(row(2, table="s.one"))
    assert (ids(harness, "s.one"), ids(harness, "s.two")) == ([2], [1])


def test_data_before_the_metadata_of_its_request_is_not_routed_by_it_when_another_table_has_the_id(
    harness: IngestHarness,
) -> None:
    harness.replicate(shared("s.one"))
    with rejected(Code.AMBIGUOUS_SCHEMA_ID):
        harness.replicate(row(1), shared("s.two"))
    assert ids(harness, "s.one") == ids(harness, "s.two") == []


def test_another_tenants_registration_changes_no_route_of_a_key_with_narrower_patterns(harness: IngestHarness) -> None:
    """Cover both orders of registration, and repeated metadata from either tenant."""
    victim, attacker = key_for("hr.*"), key_for("pub.*")
    harness.other.replicate(shared("pub.evil"), key=attacker)
    with rejected(Code.SCHEMA_UNKNOWN):
        harness.replicate(row(1), key=victim)
    harness.replicate(shared("hr.pay"), key=victim)
    for number in range(1, 4):
        harness.replicate(row(number), key=victim)
        harness.other.replicate(metadata("pub.evil", OLD, schema_id="shared", version=number), key=attacker)
    with rejected() as rejection:
        harness.replicate(row(9))
    assert rejection.code is Code.AMBIGUOUS_SCHEMA_ID, "a key for every table"
    assert (ids(harness, "hr.pay"), ids(harness, "pub.evil")) == ([1, 2, 3], [])


def test_an_id_that_a_table_had_before_is_as_ambiguous_as_its_current_one(harness: IngestHarness) -> None:
    harness.replicate(shared("s.one"), metadata("s.one", OLD, version=2), shared("s.two"))
    with rejected(Code.AMBIGUOUS_SCHEMA_ID):
        harness.replicate(row(1))


def test_a_named_table_without_the_schema_id_that_another_has_is_a_mismatch(harness: IngestHarness) -> None:
    harness.replicate(shared("s.one"), metadata("s.two", OLD))
    for told in ({"table": "s.two"}, {}):
        with rejected(Code.TABLE_MISMATCH):
            harness.replicate(row(1, **told), table=None if told else "s.two")


@pytest.fixture
def evolved(harness: IngestHarness) -> IngestHarness:
    """Give a table whose source gained a column before its last one, so that ordinals moved."""
    harness.replicate(metadata("s.t", OLD, schema_id="f1"))
    harness.replicate(metadata("s.t", NEW, schema_id="f2", version=2))
    return harness


def test_data_of_an_earlier_schema_id_is_read_by_its_own_ordinals(evolved: IngestHarness) -> None:
    late = data("INSERT", {"id": 1, "name": "a"}, schema_id="f1", columnMask="03")
    evolved.replicate(late)
    evolved.other.replicate(late | {}, table="s.t")
    with rejected(Code.MASK_OUT_OF_RANGE):
        evolved.replicate(data("INSERT", {"id": 2, "name": "b"}, schema_id="f1", columnMask="07"))
    assert evolved.landed("s.t", "id", "name", "note") == [[0, 1, "a", None]] * 2


def test_earlier_metadata_again_is_ignored_and_its_data_read_by_it(evolved: IngestHarness) -> None:
    before = evolved.table("s.t").schema
    accepted = evolved.replicate(
        metadata("s.t", OLD, schema_id="f1"), data("INSERT", {"id": 1, "name": "a"}, columnMask="03", table="s.t")
    )
    assert (accepted.ignored, accepted.receipts[0].changes) == (1, 1)
    assert evolved.replicate(metadata("s.t", OLD, schema_id="f1")).ignored == 1
    assert evolved.table("s.t").schema == before


def test_the_metadata_topic_may_be_read_again_from_its_start(harness: IngestHarness) -> None:
    columns = {"id": "INT8"}
    versions = []
    for number in range(1, 9):
        columns = columns | {f"c{number}": "INT4"}
        versions.append(metadata("s.t", columns, schema_id=str(number), version=number))
    for message in versions:
        harness.replicate(message)
    before = harness.table("s.t")
    assert [harness.replicate(message).ignored for message in versions] == [1] * 7 + [0]
    assert harness.replicate(*versions).ignored == 7
    assert harness.table("s.t") == before
    harness.replicate(data("INSERT", {"id": 1, "c1": 2, "c2": 3}, schema_id="2", columnMask="07"))


def test_older_metadata_that_was_never_accepted_is_stale(evolved: IngestHarness) -> None:
    with rejected(places=[(Code.STALE_METADATA, 0, "/message/lineage/tableVersion", None)]):
        evolved.replicate(metadata("s.t", {"id": "INT8"}, schema_id="f0"))


def test_versions_are_counted_by_each_task_for_itself(evolved: IngestHarness) -> None:
    evolved.replicate(metadata("s.t", NEW, schema_id="u1", task="moved"))
    for schema_id in ("f1", "f2", "u1"):
        columns = {"id": 1, "name": "a", "note": "n"} if schema_id != "f1" else {"id": 1, "name": "a"}
        evolved.replicate(data("INSERT", columns, schema_id=schema_id))
    with rejected(Code.STALE_METADATA):
        evolved.replicate(metadata("s.t", NEW, schema_id="u0", task="moved", version=0))


def test_a_late_update_keeps_what_the_image_knows_of_columns_added_since(harness: IngestHarness) -> None:
    harness.put("s.t", NAMED, partial_updates="complete")
    harness.replicate(metadata("s.t", OLD, schema_id="f1"))
    harness.replicate(metadata("s.t", NEW, schema_id="f2", version=2))
    harness.replicate(data("INSERT", {"id": 1, "note": "kept", "name": "a"}, schema_id="f2"))
    harness.replicate(data("UPDATE", {"id": 1, "name": "b"}, schema_id="f1"))
    harness.replicate(metadata("s.t", OLD, schema_id="f1"), data("UPDATE", {"id": 1, "name": "c"}, schema_id="f1"))
    assert harness.landed("s.t", "name", "note") == [[0, "a", "kept"], [1, "b", "kept"], [1, "c", "kept"]]


@pytest.mark.parametrize("bodies", [1, 200], ids=["alone", "in a large body"])
def test_an_update_keeps_columns_that_the_table_got_after_its_last_metadata(
    harness: IngestHarness, bodies: int
) -> None:
    harness.put("s.t", NAMED, partial_updates="complete")
    harness.replicate(metadata("s.t", OLD, schema_id="f1"))
    harness.put("s.t", schema_of({"id": "int64", "name": "string", "note": "string"}, ["id"], ["id"]))
    harness.plain_rows("s.t", *({"id": number, "name": "a", "note": "kept"} for number in range(bodies)))
    harness.replicate(*(data("UPDATE", {"id": number, "name": "b"}) for number in range(bodies)), table="s.t")
    harness.replicate(data("UPDATE", {"id": 0, "name": "c"}, schema_id="f1"))
    last = {number: (name, note) for _, number, name, note in harness.landed("s.t", "id", "name", "note")}
    assert last == {number: ("b" if number else "c", "kept") for number in range(bodies)}


@pytest.mark.parametrize("incomplete_inserts", ["land_null", "reject"])
def test_late_rows_of_a_table_with_images_are_never_rejected_for_columns_added_since(
    harness: IngestHarness, incomplete_inserts: str
) -> None:
    """Neither where the row came late itself, nor where no image of it is kept."""
    options = {"partial_updates": "complete", "incomplete_inserts": incomplete_inserts}
    harness.put("s.t", NAMED, **options)
    harness.replicate(metadata("s.t", OLD, schema_id="f1"))
    harness.replicate(metadata("s.t", NEW, schema_id="f2", version=2))
    harness.replicate(data("INSERT", {"id": 1, "name": "a"}, schema_id="f1"))
    harness.replicate(data("UPDATE", {"id": 1, "name": "b"}, schema_id="f1"))
    harness.replicate(data("UPDATE", {"id": 2, "name": "c"}, schema_id="f1"))
    harness.replicate(data("UPDATE", {"id": 1, "note": "n", "name": "d"}, schema_id="f2"))
    harness.replicate(data("UPDATE", {"id": 3, "name": "e"}, {"id": 1}, schema_id="f1"))
    harness.replicate(data("UPDATE", {"id": 3, "note": None, "name": "f"}, schema_id="f2", columnMask="05"))
    assert harness.landed("s.t", "id", "name", "note") == [
        [0, 1, "a", None],
        [1, 1, "b", None],
        [1, 2, "c", None],
        [1, 1, "d", "n"],
        [2, 1, None, None],
        [0, 3, "e", "n"],
        [1, 3, "f", "n"],
    ]


def test_a_late_update_lands_null_in_columns_added_since_without_images(evolved: IngestHarness) -> None:
    evolved.replicate(data("UPDATE", {"id": 1, "name": "b"}, schema_id="f1"))
    assert evolved.landed("s.t", "id", "name", "note") == [[1, 1, "b", None]]


def test_an_earlier_external_schema_id_is_that_of_its_version(harness: IngestHarness) -> None:
    harness.replicate(
        metadata("s.t", OLD, schema_id=None), data("INSERT", {"id": 1, "name": "a"}, externalSchemaId="77", table="s.t")
    )
    harness.replicate(metadata("s.t", NEW, schema_id=None, version=2))
    late = data("INSERT", {"id": 2, "name": "b"}, externalSchemaId="77", columnMask="03", table="s.t")
    new = data("INSERT", {"id": 3, "note": "n", "name": "c"}, externalSchemaId="78", columnMask="07", table="s.t")
    harness.replicate(late)
    harness.replicate(new)
    harness.replicate(late)
    with rejected(places=[(Code.SCHEMA_MISMATCH, 0, "/message/headers/externalSchemaId", None)]):
        harness.replicate(data("INSERT", {"id": 4, "note": "n", "name": "d"}, externalSchemaId="79", table="s.t"))
    assert harness.landed("s.t", "id", "note") == [[0, 1, None], [0, 2, None], [0, 3, "n"], [0, 2, None]]
