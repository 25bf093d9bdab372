"""Option `source_order=enforce`: each change of a source task lands once, however often and by whomever it is sent."""

from concurrent.futures import ThreadPoolExecutor

import sqlalchemy as sa

from app.errors import Code
from app.ingest import ReplicateJson
from app.observability.api_metrics import DUPLICATE_CHANGES
from tests.support.ingest_harness import IngestHarness
from tests.support.rejections import rejected
from tests.support.samples.messages import Message, data, metadata
from tests.support.samples.schemas import schema_of

ID = schema_of({"id": "int64"}, ["id"], ["id"])


def insert(number: int, schema_id: str | None = None, **facts: int | None) -> Message:
    """Return an insert whose change sequence is its key, unless another is given."""
    return data("INSERT", {"id": number}, schema_id=schema_id, **{"sequence": number, **facts})


def keys(harness: IngestHarness, table: str = "t") -> list[int]:
    return [row["id"] for row in harness.rows(table)]


def positions(harness: IngestHarness, name: str) -> dict[str, int]:
    table = harness.table(name)
    with harness.engine.begin() as connection:
        found = connection.execute(
            sa.text("SELECT task, last_sequence FROM mirrorgate.source_positions WHERE table_id = :table_id"),
            {"table_id": table.table_id},
        ).all()
    return {task: int(sequence) for task, sequence in found}


def test_changes_accepted_before_are_dropped_counted_and_reported(
    harness: IngestHarness, other_harness: IngestHarness
) -> None:
    harness.put("t", ID, source_order="enforce")
    counted = DUPLICATE_CHANGES._value.get()
    first = harness.replicate(insert(1), insert(2), table="t")
    second = other_harness.replicate(insert(2), insert(3), insert(3), table="t")
    third = harness.replicate(insert(1), insert(3), table="t")
    assert [accepted.duplicates for accepted in (first, second, third)] == [0, 2, 2]
    assert [[receipt.changes for receipt in accepted.receipts] for accepted in (first, second, third)] == [[2], [1], []]
    assert DUPLICATE_CHANGES._value.get() - counted == 4
    assert (keys(harness), positions(harness, "t")) == ([1, 2, 3], {"": 3})


def test_by_default_changes_land_as_they_arrive(harness: IngestHarness) -> None:
    harness.put("t", ID)
    assert harness.replicate(insert(2), insert(1), insert(2), table="t").duplicates == 0
    assert (keys(harness), positions(harness, "t")) == ([2, 1, 2], {})


def test_a_request_out_of_order_or_without_sequences_is_rejected_whole(harness: IngestHarness) -> None:
    harness.put("t", ID, source_order="enforce")
    with rejected() as rejection:
        harness.replicate(insert(5), insert(7), insert(6), insert(8, sequence=None), table="t")
    pointer = "/message/headers/changeSequence"
    assert [place[:3] for place in rejection.places] == [
        (Code.OUT_OF_ORDER, 2, pointer),
        (Code.BAD_SEQUENCE, 3, pointer),
    ]
    assert (keys(harness), positions(harness, "t")) == ([], {})


def test_full_load_rows_pass_whatever_was_accepted(harness: IngestHarness) -> None:
    harness.put("t", ID, source_order="enforce", reload="upsert")
    refresh = data("REFRESH", {"id": 1})
    for _ in range(2):
        harness.replicate(refresh, insert(5), refresh, table="t")
    assert harness.landed("t", "id") == [[0, 1], [0, 5], [4, 1], [4, 1], [4, 1]]


def test_a_rejected_request_moves_no_position(harness: IngestHarness) -> None:
    harness.put("t", ID, source_order="enforce")
    with rejected():
        harness.replicate(insert(5), data("INSERT", {"id": "x"}, sequence=6), table="t")
    assert positions(harness, "t") == {}
    assert harness.replicate(insert(5), table="t").receipts[0].changes == 1


def test_the_same_batch_from_two_processes_at_once_lands_once(
    harness: IngestHarness, other_harness: IngestHarness
) -> None:
    harness.put("t", ID, source_order="enforce")
    batch = [insert(number) for number in range(1, 6)]
    with ThreadPoolExecutor(4) as pool:
        posts = [
            pool.submit(process.replicate, *batch, table="t") for process in (harness, other_harness) for _ in range(2)
        ]
        accepted = [post.result() for post in posts]
    assert sorted(one.duplicates for one in accepted) == [0, 5, 5, 5]
    assert keys(harness) == [1, 2, 3, 4, 5]


def test_each_task_has_an_order_of_its_own_also_within_a_request(harness: IngestHarness) -> None:
    harness.put("S.T", ID, source_order="enforce")
    one = metadata("S.T", {"id": "INT8"}, task="one", schema_id="1")
    two = metadata("S.T", {"id": "INT8"}, task="two", schema_id="2")
    harness.replicate(one, insert(50, "1"), two, insert(7, "2"), insert(8, "2"))
    again = harness.replicate(one, insert(50, "1"), insert(51, "1"), two, insert(8, "2"), insert(9, "2"))
    assert (again.duplicates, keys(harness, "S.T")) == (2, [50, 7, 8, 51, 9])
    assert positions(harness, "S.T") == {"srv/one": 51, "srv/two": 9}
    with rejected() as rejection:
        harness.replicate(one, insert(53, "1"), insert(52, "1"), two, insert(10, "2"), insert(6, "2"))
    assert rejection.places[0][:2] == (Code.OUT_OF_ORDER, 2)
    assert [place[1] for place in rejection.places] == [2, 5]


def test_each_partition_of_a_task_has_an_order_of_its_own(harness: IngestHarness, other_harness: IngestHarness) -> None:
    """Changes of other rows arrive later from another partition, although their marks are lower."""
    harness.replicate(metadata("S.T", {"id": "INT8"}, schema_id="1"))
    harness.put("S.T", source_order="enforce")
    harness.replicate(insert(5, "1"), insert(9, "1"), partition="0")
    late = other_harness.replicate(insert(4, "1"), insert(6, "1"), partition="1")
    again = [harness.replicate(insert(number, "1"), partition=part).duplicates for number, part in ((9, "0"), (6, "1"))]
    assert (late.duplicates, again, keys(harness, "S.T")) == (0, [1, 1], [5, 9, 4, 6])
    assert positions(harness, "S.T") == {"srv/task\x1f0": 9, "srv/task\x1f1": 6}


def test_another_source_of_the_same_task_has_an_order_of_its_own(harness: IngestHarness) -> None:
    harness.put("S.T", ID, source_order="enforce", sources=["S.OTHER"])
    harness.replicate(metadata("S.T", {"id": "INT8"}), insert(50, "S.T-1"))
    accepted = harness.replicate(metadata("S.OTHER", {"id": "INT8"}), insert(7, "S.OTHER-1"))
    assert (accepted.duplicates, keys(harness, "S.T")) == (0, [50, 7])


def test_a_dry_run_counts_duplicates_and_moves_nothing(harness: IngestHarness) -> None:
    harness.put("t", ID, source_order="enforce")
    harness.replicate(insert(1), table="t")
    body = b"[%s]" % b",".join(
        b'{"headers":{"operation":"INSERT","changeSequence":"%035d"},"data":{"id":%d}}' % (number, number)
        for number in (1, 2)
    )
    name = harness.table("t").name
    for _ in range(2):
        result = harness.dry_run(ReplicateJson(body, name))
        assert (result.duplicates, result.tables[0].rows) == (1, [{"id": 2, "__rowMarker__": 0}])
    assert positions(harness, "t") == {"": 1}
